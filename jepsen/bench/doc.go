// Package bench measures whole systems side by side: in one run, in short windows
// in shuffled order, so that what else the machine does falls on both. It reports
// ratios and CPU per operation, and says "inconclusive" when the machine was busy
// with other work in too many windows.
package bench
