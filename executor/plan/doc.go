// Package plan chooses what a host does next. Each choice is a pure function of what is
// wanted and what was observed, and gives one step, or a refusal: every rule about order
// and safety is here, and is tested as a table and by fuzzing. Clocks, locks and I/O are
// refused by an analyzer (cmd/fsmvet). *_view.go is what a choice looks at, and *_news.go
// what the log has not been told of that.
package plan
