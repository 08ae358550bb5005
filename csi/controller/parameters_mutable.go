package controller

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// The mutable parameters, which may also be among the parameters of CreateVolume. A value
// is "<read>/<write>", or one number for both; 0 is no limit. Numbers are integers in
// decimal; those of bandwidthLimit are bytes a second and may end in Ki, Mi or Gi.
const (
	iopsKey      = "iopsLimit"      // operations a second, such as 1000/500
	bandwidthKey = "bandwidthLimit" // such as 100Mi/50Mi
)

// The bits of fsmpb.ModifyVolume.set.
const (
	iopsMask      = 1<<0 | 1<<1
	bandwidthMask = 1<<2 | 1<<3
)

// limitParameters are the limits that a request names.
type limitParameters struct {
	values fsm.Limits
	mask   uint32 // a bit for each that is named
}

// merge merges the mutable parameters: their values win over those of parameters. A key
// or value that is not known is fsm.Invalid.
func (l *limitParameters) merge(given map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		known, err := l.parse(key, given[key])
		if err != nil {
			return err
		}
		if !known && !strings.HasPrefix(key, csiconv.COPrefix) {
			return fsm.Reject(fsm.Invalid, "mutable parameter %q is not known: there are %s", csiconv.Message(key), strings.Join(mutableKeys, " and "))
		}
	}
	return nil
}

// parse reads one parameter, when it is a limit.
func (l *limitParameters) parse(key, value string) (known bool, err error) {
	switch key {
	case iopsKey:
		l.mask |= iopsMask
		l.values.ReadIOPS, l.values.WriteIOPS, err = parseReadWrite(key, value, math.MaxUint32, nil)
	case bandwidthKey:
		l.mask |= bandwidthMask
		l.values.ReadBPS, l.values.WriteBPS, err = parseReadWrite(key, value, math.MaxInt64, bandwidthUnits)
	default:
		return false, nil
	}
	return true, err
}

// bandwidthUnits are the suffixes of bandwidths.
var bandwidthUnits = map[string]uint64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}

// parseReadWrite reads "<read>/<write>" or one number for both.
func parseReadWrite(key, value string, maximum uint64, units map[string]uint64) (read, write uint64, err error) {
	first, second, both := strings.Cut(value, "/")
	if !both {
		second = first
	}
	read, readOK := parseAmount(first, maximum, units)
	write, writeOK := parseAmount(second, maximum, units)
	if !readOK || !writeOK {
		return 0, 0, fsm.Reject(fsm.Invalid, "%s=%q is neither <read>/<write> nor one number for both, of at most %d", key, csiconv.Message(value), maximum)
	}
	return read, write, nil
}

// parseAmount reads a whole number with a unit.
func parseAmount(text string, maximum uint64, units map[string]uint64) (uint64, bool) {
	factor := uint64(1)
	for suffix, unit := range units {
		if rest, found := strings.CutSuffix(text, suffix); found {
			text, factor = rest, unit
		}
	}
	if strings.HasPrefix(text, "+") {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n * factor, err == nil && n <= maximum/factor
}
