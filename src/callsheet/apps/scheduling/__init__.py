"""Plans that run by the clock: which times are due, the processes that run them, and who is told.

`schedules` is the calendar: settings of the project in, due times and run ids out, without a clock.
`scheduler` starts and resumes the runs. `notices` tells people by webhooks what runs ask and how they ended.
"""
