// Example plans for the first visit; they need neither a model nor network, and only built-in tools.
export const EXAMPLES = [
  {
    title: "Which orders are worth a call?",
    about: "Selects from a list, and goes through it.",
    text: `# ltp: 2
# goal: Which orders are worth a call?
INPUT $least: int = 100  # the least total
LET $orders = [{"name": "Ada", "total": 120}, {"name": "Linus", "total": 18}, {"name": "Grace", "total": 230}]
S1: ?FOREACH ($order IN [one for one in $orders if one.total >= $least]) {
  S2: @FORMAT ("call $order.name about $order.total") > $line
  YIELD ($line)
} > $calls
S3: @RESPOND ($calls)
`,
  },
  {
    title: "Check a list, some of which fails",
    about: "A loop that takes its time and goes on after failures: watch its rate, then see which items failed and why.",
    text: `# ltp: 2
# goal: Check a list, some of which fails
INPUT $count: int = 30  # how many to check
S1: ?FOREACH ($n IN range($count)) TOGETHER MAX 3 {
  WAIT ("0.4s")
  LET $share = 100 / ($n % 7)
  YIELD ($share)
} > $shares ON_FAIL SKIP
S3: @RESPOND ("\${len($shares)} of $count could be checked")
`,
  },
  {
    title: "Ask before going on",
    about: "Waits for your answer, which the list of runs shows as an open question.",
    text: `# ltp: 2
# goal: Ask before going on
INPUT $what: str = "the newsletter"  # what would be sent
S1: @ASK_HUMAN (prompt="Send $what?", options=["yes", "no"]) > $answer
S2: ?IF ($answer == "no") THEN TERMINATE ("not sent")
S3: @RESPOND ("$what may be sent")
`,
  },
];
