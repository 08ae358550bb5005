package drbdmodel

import "math/bits"

// MaxWrites is how many writes one Pair can take.
const MaxWrites = 512

// Blocks is a set of blocks, each named by the number of the only write to it.
type Blocks [MaxWrites / 64]uint64

// Has reports whether block n is in the set.
func (b *Blocks) Has(n int) bool { return b[n/64]&(1<<(n%64)) != 0 }

// Lacks reports whether a block of o is not in b.
func (b *Blocks) Lacks(o *Blocks) bool {
	for i := range b {
		if o[i]&^b[i] != 0 {
			return true
		}
	}
	return false
}

// Len is the number of blocks.
func (b *Blocks) Len() (n int) {
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

func (b *Blocks) add(n int)    { b[n/64] |= 1 << (n % 64) }
func (b *Blocks) remove(n int) { b[n/64] &^= 1 << (n % 64) }

func (b *Blocks) addAll(o *Blocks) {
	for i := range b {
		b[i] |= o[i]
	}
}

func (b *Blocks) removeAll(o *Blocks) {
	for i := range b {
		b[i] &^= o[i]
	}
}

// first returns the block with the lowest number, false when there is none.
func (b *Blocks) first() (int, bool) {
	for i, word := range b {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word), true
		}
	}
	return 0, false
}

// copyBlock makes block n of b what it is in from.
func (b *Blocks) copyBlock(from *Blocks, n int) {
	if from.Has(n) {
		b.add(n)
	} else {
		b.remove(n)
	}
}

// allBlocks is the bitmap that names every block.
func allBlocks() (b Blocks) {
	for i := range b {
		b[i] = ^uint64(0)
	}
	return b
}
