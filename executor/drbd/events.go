package drbd

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	eventName  = regexp.MustCompile(` name:(\S+)`)
	eventMinor = regexp.MustCompile(` minor:(\d+)`)
	// eventFrozen is a resource's line while suspend-io is in force, alone or with other reasons.
	eventFrozen = regexp.MustCompile(`^\S+ resource .* suspended:(\S+,)?user\b`)
)

// parseMinors reads from the output of events2 which resource has which minor.
func parseMinors(events string) map[uint32]fsm.VolumeID {
	minors := map[uint32]fsm.VolumeID{}
	for line := range strings.Lines(events) {
		name, minor := eventName.FindStringSubmatch(line), eventMinor.FindStringSubmatch(line)
		if name == nil || minor == nil {
			continue
		}
		if n, err := strconv.ParseUint(minor[1], 10, 32); err == nil {
			minors[uint32(n)] = fsm.VolumeID(name[1])
		}
	}
	return minors
}

// parseFrozen reads from the output of events2 whether suspend-io holds the resource's I/O back.
func parseFrozen(events string, id fsm.VolumeID) bool {
	for line := range strings.Lines(events) {
		if m := eventName.FindStringSubmatch(line); m != nil && fsm.VolumeID(m[1]) == id && eventFrozen.MatchString(line) {
			return true
		}
	}
	return false
}

func parseVolumes(events string) []fsm.VolumeID {
	var ids []fsm.VolumeID
	for line := range strings.Lines(events) {
		if m := eventName.FindStringSubmatch(line); m != nil && fsm.VolumeID(m[1]).Valid() && !slices.Contains(ids, fsm.VolumeID(m[1])) {
			ids = append(ids, fsm.VolumeID(m[1]))
		}
	}
	return ids
}

// eventWriter parses the stream line by line. The initial dump has several lines of one volume
// that arrive together: changed is called once for all of them.
type eventWriter struct {
	changed  func(fsm.VolumeID)
	partial  []byte
	gotEvent bool
}

// maxLineBytes bounds how much of a line without an end is kept.
const maxLineBytes = 64 << 10

func (l *eventWriter) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	end := bytes.LastIndexByte(l.partial, '\n')
	if end < 0 {
		if len(l.partial) > maxLineBytes {
			l.partial = nil
		}
		return len(p), nil
	}
	l.gotEvent = true
	for _, id := range parseVolumes(string(l.partial[:end+1])) {
		l.changed(id)
	}
	l.partial = append([]byte(nil), l.partial[end+1:]...)
	return len(p), nil
}
