package sim

import "strings"

// failureKind is what a failure is, without its particulars.
func failureKind(failure string) string {
	kind, _, _ := strings.Cut(failure, ":")
	return kind
}

// shrink makes a failing tape shorter and tamer, as long as it fails in the same way. It plays at
// most so many runs.
func shrink(choices []uint32, failure string, runs int, play func([]uint32) *Result) []uint32 {
	best := append([]uint32(nil), choices...)
	fails := func(candidate []uint32) bool {
		if runs <= 0 {
			return false
		}
		runs--
		return failureKind(play(candidate).Failure) == failureKind(failure)
	}
	for size := max(1, len(best)/2); size >= 1 && runs > 0; size /= 2 {
		for at := 0; at < len(best) && runs > 0; at += size {
			end := min(at+size, len(best))
			if cut := append(append([]uint32(nil), best[:at]...), best[end:]...); fails(cut) {
				best, at = cut, at-size
				continue
			}
			if tame := tamed(best, at, end); tame != nil && fails(tame) {
				best = tame
			}
		}
	}
	return best
}

// tamed is the tape with the first choice everywhere in a range, nil where it has that already.
func tamed(choices []uint32, from, to int) []uint32 {
	tame, changed := append([]uint32(nil), choices...), false
	for i := from; i < to; i++ {
		changed = changed || tame[i] != 0
		tame[i] = 0
	}
	if !changed {
		return nil
	}
	return tame
}
