package sim

import "math/rand/v2"

// tape is the choices of one run. A recorded tape is replayed choice by choice; beyond its end, and
// where it has a choice that is not offered, the choice is the first one, which is always the tamest.
type tape struct {
	random  *rand.Rand // nil: only what is recorded
	choices []uint32
	next    int
}

func newTape(seed uint64) *tape {
	return &tape{random: rand.New(rand.NewPCG(seed, 0x5eed))}
}

func replayTape(choices []uint32) *tape { return &tape{choices: choices} }

// pick chooses one of n.
func (t *tape) pick(n int) int {
	if n <= 1 {
		return 0
	}
	if t.random != nil {
		c := t.random.IntN(n)
		t.choices = append(t.choices, uint32(c))
		return c
	}
	c := 0
	if t.next < len(t.choices) {
		c = int(t.choices[t.next])
	}
	t.next++
	if c >= n {
		return 0
	}
	return c
}

// oneIn is true once in n choices, and never on a tape that ended.
func (t *tape) oneIn(n int) bool { return t.pick(n) == n-1 }
