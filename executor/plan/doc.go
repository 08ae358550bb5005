// Package plan chooses what a host does next. Each choice is a pure function from what is
// desired, observed and recorded to one step or a refusal. Every rule about order and safety
// is here, tested by tables and by fuzzing; an analyzer (cmd/fsmvet) refuses clocks, locks and
// I/O. *_view.go has the inputs of the choices, *_unreported.go what of them the log does not have.
package plan
