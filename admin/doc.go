// Package admin is the operators' API: what the cluster is, what it holds, what
// it did, and whether the hosts hold what the log says. It serves the API,
// calls it, and prints its answers.
//
// It decides nothing: reads come from the applied state under a linearizable
// read (or, when asked, from the member's own state), changes are commands like
// any others. Every answer carries the log index it was read at.
//
// An audit asks each host for an inventory and compares it with the state. What
// looks wrong is looked at again, since host and state change meanwhile: only
// what two rounds agree on is reported. Deletion is said, never inferred from
// absence, so an audit only tells; an operator acts (S14).
//
// A plan says what a verb (drain, evict, lost, replace, force-primary) would come to.
// It is made by applying the commands to a copy of the state, so it says what the log
// would refuse, and why. To carry it out proposes those commands; what is done is in
// the state, so the same call goes on where another ended.
//
// An upgrade is finished here: the feature level rises when every member answers, and
// every node registered, that it understands it (S72).
package admin
