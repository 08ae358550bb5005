package csiconv

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/fsm"
)

// maxSegment is CSI's limit for a key's prefix, a key's name and a value, in bytes.
const maxSegment = 63

// ParseTopology reads one term. Keys are compared without regard to case, as CSI
// demands, so they become lower-case; two that differ in case only are refused.
// The rejection is fsm.Invalid.
func ParseTopology(t *csi.Topology) (fsm.Topology, error) {
	term := make(fsm.Topology, 0, len(t.GetSegments()))
	seen := make(map[string]bool, len(t.GetSegments()))
	for key, value := range t.GetSegments() {
		lower := strings.ToLower(key)
		if err := CheckSegment(key, value); err != nil {
			return nil, err
		}
		if seen[lower] {
			return nil, fsm.Reject(fsm.Invalid, "topology key %s is there twice: case does not tell keys apart", lower)
		}
		seen[lower] = true
		term = append(term, fsm.Label{Key: lower, Value: value})
	}
	slices.SortFunc(term, func(a, b fsm.Label) int { return strings.Compare(a.Key, b.Key) })
	return term, nil
}

// CheckSegment applies CSI's rules for a topology's key and value.
func CheckSegment(key, value string) error {
	prefix, name, hasPrefix := strings.Cut(key, "/")
	if !hasPrefix {
		prefix, name = "", key
	}
	switch {
	case hasPrefix && !isDomain(prefix):
		return fsm.Reject(fsm.Invalid, "topology key %q: the prefix must be a lower-case domain name of at most %d bytes", truncatedKey(key), maxSegment)
	case !isSegmentName(name):
		return fsm.Reject(fsm.Invalid, "topology key %q: the name must have 1 to %d letters, digits, '-', '_' or '.', and a letter or digit at both ends", truncatedKey(key), maxSegment)
	case !hasValidEnds(value, IsAlphanumeric) || len(value) > maxSegment:
		return fsm.Reject(fsm.Invalid, "the value of topology key %q must have 1 to %d bytes and a letter or digit at both ends", truncatedKey(key), maxSegment)
	}
	return nil
}

func truncatedKey(key string) string { return Message(key) }

// IsAlphanumeric reports whether r is a letter or digit of ASCII, as CSI's keys begin and end
// with.
func IsAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func isDomain(prefix string) bool {
	lower := func(r rune) bool { return IsAlphanumeric(r) && (r < 'A' || r > 'Z') }
	if len(prefix) > maxSegment || !hasValidEnds(prefix, lower) {
		return false
	}
	return !strings.ContainsFunc(prefix, func(r rune) bool { return !lower(r) && r != '-' && r != '.' }) &&
		!strings.Contains(prefix, "..")
}

func isSegmentName(name string) bool {
	return len(name) <= maxSegment && hasValidEnds(name, IsAlphanumeric) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !IsAlphanumeric(r) && !strings.ContainsRune("-_.", r) })
}

// hasValidEnds tells whether a text is not empty and has allowed characters at both ends.
func hasValidEnds(text string, valid func(rune) bool) bool {
	return text != "" && valid(rune(text[0])) && valid(rune(text[len(text)-1]))
}

// Topology is a term as CSI's message.
func Topology(term fsm.Topology) *csi.Topology {
	segments := make(map[string]string, len(term))
	for _, label := range term {
		segments[label.Key] = label.Value
	}
	return &csi.Topology{Segments: segments}
}
