// The example plan for a first run; it needs neither a model nor network, and only built-in tools.
export const EXAMPLE = `# goal: Which orders are worth a call?
PLAN_START
S1: @SELECT ([{"name": "Ada", "total": 120}, {"name": "Linus", "total": 18}], query="[?total > \`100\`]") > $large
S2: ?FOREACH ($order IN $large) THEN @FORMAT ("call $order.name about $order.total") > $calls
S3: ?IF (IS_EMPTY($calls)) THEN @RESPOND ("Nobody has to be called.")
S4: @RESPOND ($calls)
PLAN_END
`;
