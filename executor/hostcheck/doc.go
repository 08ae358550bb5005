// Package hostcheck looks at one machine that runs, or is to run, a node or a controller, and says what
// of it is not as Holdfast needs it.
//
// A Gatherer reads Facts, from a root folder, the kernel and the host's commands, all of which tests
// replace. It changes nothing: no module is loaded, no lock is taken, and the only file that it makes, to
// measure the disk below the data folder, is removed again. Check is a pure function from facts to
// findings, so that a controller can judge the facts of a host of another build.
package hostcheck
