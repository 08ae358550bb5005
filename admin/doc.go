// Package admin is the operators' API: the cluster's members and nodes, its volumes and snapshots,
// its history, and an audit of the hosts against the log. It has the server, a client, and the
// printing of answers.
//
// It decides nothing: reads come from the applied state under a linearizable read (or, on request,
// from the member's own state), and changes are ordinary commands. Every answer carries the log
// index at which it was read.
//
// An audit requests an inventory from each host and compares it with the state. Host and state
// change meanwhile, so only differences that consecutive rounds confirm are reported. An audit
// changes nothing, because deletion is never inferred from absence (S14); an operator acts.
//
// A plan shows the steps of a verb (drain, evict, lost, replace, force-primary). It is made by
// applying the commands to a copy of the state, so it includes what would be rejected, and why.
// Carrying it out proposes those commands. The progress is in the state alone, so repeating the
// same call continues where an earlier one ended.
//
// AtRisk, Tolerance and RebootSafe ask a copy of the state what would happen if something stopped, and change
// nothing. ClaimMaintenance records that a host goes down on purpose.
// Doctor has members and hosts look at themselves, adds what the state knows, and judges all of it by rules that are pure
// functions. What package bundle writes down of a cluster is printed by this package's server and client again.
//
// FinishUpgrade raises the feature level when every member answers, and every node registered,
// that it supports the level (S72).
package admin
