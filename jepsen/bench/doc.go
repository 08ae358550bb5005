// Package bench measures whole systems side by side: in one run, in short windows in shuffled order, so
// that other load on the machine affects both alike. It reports ratios and CPU per operation, and
// "inconclusive" when the machine was busy with other work in too many windows.
package bench
