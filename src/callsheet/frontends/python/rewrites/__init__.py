"""Python as simpler Python: what a plan cannot say, said with what it can. `reader` has their order.

Each takes the tree of a file, changes it in place, and tells whether it did. `inlining` has what they share.

- names: `module_names`, `logs`, `buffers`, `timeouts`, `asyncio_words`
- functions as values: `definitions`, `factories`, `decorators`, `function_lists`, `function_tables`,
  `closures`
- objects: `inherited`, `methods`, `setters`, `contexts`, `changed_constants`, `made_once`
- loops over what computes or awaits its items: `flows`, `recursive_flows`, `lazy_sources`, `iterator_steps`
- calls side by side: `nested_groups`, `mixed_calls`, `given_calls`, `started_in_loops`, `cancelled_groups`,
  `group_handlers`, `parameters`, `known_numbers`
- tasks: `task_words`, `task_numbers` with `task_calls` and `task_order`, `first_done`
- queues: `worker_pools` with `worker_items`, `worker_starts`, `queue_users` and `queue_loops`
- functions that call themselves, copied while they are lowered: `recursion`
"""
