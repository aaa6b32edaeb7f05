// The plan that is offered to somebody who has none: it needs no model, no network, and no tool but those built in.
export const EXAMPLE = `# goal: Which orders are worth a call?
PLAN_START
S1: @SELECT ([{"id": 1, "customer": "Ada", "total": 120.5}, {"id": 2, "customer": "Linus", "total": 18.0}, {"id": 3, "customer": "Grace", "total": 310.0}], query="[?total > \`100\`]") > $large
S2: ?FOREACH ($order IN $large) THEN @FORMAT ("call $order.customer about order $order.id") > $calls
S3: ?IF (IS_EMPTY($calls)) THEN @RESPOND ("Nobody has to be called.")
S4: @RESPOND ("$calls")
PLAN_END
`;
