// Package sim is layer L0: the deterministic simulation of a whole cluster in one process.
//
// A seed is played in one testing/synctest bubble. Everything that decides is the real code: fsm
// behind an ordered log, executor/agent with real record files, both ends of executor/session,
// executor/policy, and the CSI servers. What they act on is backendtest's world. Connections, the
// log and its members are pretended, and everything in them that may happen waits for the driver.
//
// The driver waits until every goroutine of the bubble is blocked, and then lets exactly one thing
// happen: an effect of a host, a message, a proposal, an event of a kernel, a fault, or time. It
// chooses by the seed's tape, so that the same tape gives the same run: the hash of the trace says so.
//
//	tape.go, trace.go         the choices, and what happened
//	sim.go, step.go, run.go   the driver, one step of it, and the two phases
//	event.go, gate.go         what may happen next; where hosts wait to be let go on
//	net*.go                   connections between hosts and controllers
//	log.go, member*.go        the ordered log, and the controllers that apply it
//	host*.go                  hosts and their processes
//	extras.go                 what some seeds have in addition: encrypted volumes, two sites, replication between them
//	sites.go                  who is at which site, and calls at the wrong one
//	aim.go, scene*.go         crashes at chosen boundaries, and the scripts that lead to those that are rare
//	client*.go, operator.go   who calls
//	fault*.go                 what goes wrong
//	check*.go                 what must hold
//	shrink.go                 makes a failing tape short
package sim
