package fsm

import "math/bits"

// SizeFor is the size in bytes of a volume that is asked for with a capacity range
// (0: not given) and capabilities; every caller that needs the size takes it from
// here. It is a multiple of VolumeSizeUnit within the range. Invalid: the range
// contradicts itself; OutOfRange: no valid size is in it.
func SizeFor(required, limit int64, capabilities []Capability) (int64, *Rejection) {
	switch {
	case required < 0 || limit < 0:
		return 0, Reject(Invalid, "the capacity range %d to %d has a negative bound", required, limit)
	case limit != 0 && limit < required:
		return 0, Reject(Invalid, "the limit of %d bytes is below the %d bytes required", limit, required)
	case required > MaxVolumeSize:
		return 0, Reject(OutOfRange, "%d bytes are required: the largest volume has %d", required, int64(MaxVolumeSize))
	}
	size := max(roundUp(required), MinSize(capabilities))
	if required == 0 && size < DefaultVolumeSize {
		size = defaultWithin(limit, size)
	}
	if limit != 0 && size > limit {
		return 0, Reject(OutOfRange, "no volume has between %d and %d bytes: sizes are multiples of %d and at least %d here",
			required, limit, VolumeSizeUnit, MinSize(capabilities))
	}
	return size, nil
}

// defaultWithin is the default size, or what the limit leaves of it.
func defaultWithin(limit, least int64) int64 {
	if limit == 0 || limit >= DefaultVolumeSize {
		return DefaultVolumeSize
	}
	return max(limit-limit%VolumeSizeUnit, least)
}

// MinSize is the smallest size in bytes of a volume with all these capabilities.
func MinSize(capabilities []Capability) int64 {
	least := int64(VolumeSizeUnit)
	for _, c := range capabilities {
		switch {
		case c.Block:
		case c.FSType == "xfs":
			least = max(least, MinXFSSize)
		default:
			least = max(least, MinExt4Size)
		}
	}
	return least
}

// roundUp rounds up to a multiple of VolumeSizeUnit. It is for sizes up to MaxVolumeSize, so it
// cannot overflow.
func roundUp(size int64) int64 {
	return (size + VolumeSizeUnit - 1) / VolumeSizeUnit * VolumeSizeUnit
}

// percentOf is value*percent/100 rounded down, at most the largest int64.
func percentOf(value int64, percent uint32) int64 {
	const largest = 1<<63 - 1
	hi, lo := bits.Mul64(uint64(value), uint64(percent))
	if hi >= 100 {
		return largest
	}
	quotient, _ := bits.Div64(hi, lo, 100)
	return int64(min(quotient, largest))
}
