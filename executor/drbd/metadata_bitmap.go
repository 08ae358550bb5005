package drbd

import (
	"fmt"
	"math"
	"math/bits"
)

// dumpedBitmap is what was read of a bitmap.
type dumpedBitmap struct {
	used  int64 // words that stand for blocks of the device
	words int64 // that were read
	marks int64 // bits that are set in used words
}

// add counts a word that stands in the bitmap so many times in a row.
func (b *dumpedBitmap) add(times int64, word uint64) {
	counted := max(0, min(times, b.used-b.words))
	b.words += times
	b.marks += counted * int64(bits.OnesCount64(word))
}

// bitmapWords is how many words of a bitmap stand for blocks of the device. A dump shows the whole area of the bitmap, of
// which the kernel writes whole pages: beyond the device's end is what was in its memory. The last word counts whole, and
// all words do where the dump has not said before the bitmap how large the device and a bit are: a mark too many is
// refused, one that is passed over would be a block that is not copied.
func (p *dumpParser) bitmapWords() int64 {
	sectors, hasSize := p.numbers["la-size-sect"]
	perBit, hasBit := p.numbers["bm-byte-per-bit"]
	if !hasSize || !hasBit || perBit == 0 || perBit > math.MaxInt32 || sectors > math.MaxInt64/sectorBytes {
		return math.MaxInt64
	}
	const bitsPerWord = 64
	size, perWord := int64(sectors)*sectorBytes, int64(perBit)*bitsPerWord
	words := size / perWord
	if size%perWord != 0 {
		words++
	}
	return words
}

// marks is how many blocks a bitmap marks as out of sync. A bitmap that is not there, or ends before the device, is an error.
func (p *dumpParser) marks(bitmap int) (int64, error) {
	b := p.bitmaps[bitmap]
	if b == nil || b.used != math.MaxInt64 && b.words < b.used {
		return 0, fmt.Errorf("there is no bitmap of the whole device in it")
	}
	return b.marks, nil
}
