package stamps

import "fmt"

// Block is a whole block that was found on a device.
type Block struct {
	At     int64  `json:"at"` // its first byte
	Number uint64 `json:"number"`
	Stamp  string `json:"stamp"`
}

// Judge compares the blocks of one replica, or of the volume itself, with the turns of its writers, in a ring of so
// many blocks. It answers what is wrong, each as a sentence; nothing where the volume kept its word.
func Judge(found []Block, turns []Turn, ring uint64) (wrong []string) {
	wrong = overlaps(turns)
	inPlace := map[uint64]Block{}
	for _, b := range found {
		if !written(b, turns) {
			wrong = append(wrong, fmt.Sprintf("at %d is block %d of %q, which no writer of that stamp wrote", b.At, b.Number, b.Stamp))
			continue
		}
		// Where a filesystem wrote the place anew elsewhere, the former block may still be on the device.
		if before, ok := inPlace[b.Number%ring]; !ok || before.Number < b.Number {
			inPlace[b.Number%ring] = b
		}
	}
	return append(wrong, lost(inPlace, turns, ring)...)
}

// overlaps finds writers that were acknowledged a number of their successor's.
func overlaps(turns []Turn) (wrong []string) {
	for i := 1; i < len(turns); i++ {
		if before := turns[i-1]; before.Acked >= turns[i].From {
			wrong = append(wrong, fmt.Sprintf("%q was acknowledged block %d, and %q wrote from %d on", before.Stamp, before.Acked, turns[i].Stamp, turns[i].From))
		}
	}
	return wrong
}

func written(b Block, turns []Turn) bool {
	for _, t := range turns {
		if t.Stamp.String() == b.Stamp && t.wrote(b.Number) {
			return true
		}
	}
	return false
}

// lost finds the acknowledged blocks that are neither there nor replaced by a later one in their place. What was
// acknowledged before the last forced decision may be missing.
func lost(inPlace map[uint64]Block, turns []Turn, ring uint64) (wrong []string) {
	expected := map[uint64]uint64{} // place: the last acknowledged number
	for _, t := range turns {
		if t.Forced {
			clear(expected)
		}
		for number := firstOfRing(t, ring); number <= t.Acked; number++ {
			expected[number%ring] = max(expected[number%ring], number)
		}
	}
	for place := range ring {
		number, ok := expected[place]
		if b := inPlace[place]; ok && b.Number < number {
			wrong = append(wrong, fmt.Sprintf("acknowledged block %d is lost: its place has %d of %q", number, b.Number, b.Stamp))
		}
	}
	return wrong
}

// firstOfRing is the first number of a turn that no later one of it replaced.
func firstOfRing(t Turn, ring uint64) uint64 {
	if t.Acked < t.From+ring {
		return t.From
	}
	return t.Acked - ring + 1
}
