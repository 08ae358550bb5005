package target

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-storage/holdfast/raftnode/backup"
)

const nameTime = "20060102T150405Z"

// Name is what the name of a file says of the backup in it. Names sort by incarnation and index.
type Name struct {
	Kind        string // backup.Full or backup.Increment
	Cluster     string
	Incarnation uint64
	// IncarnationID is the beginning of its random id: two restores of one backup begin lives of the same number.
	IncarnationID string
	Since, Index  uint64
	Time          time.Time
	Encrypted     bool
}

// NameOf names a backup.
func NameOf(h backup.Header, encrypted bool) Name {
	return Name{
		Kind: h.Kind, Cluster: h.ClusterID, Incarnation: h.Incarnation, IncarnationID: h.IncarnationID[:min(8, len(h.IncarnationID))],
		Since: h.Since, Index: h.Index, Time: h.Time, Encrypted: encrypted,
	}
}

// String is the file's name.
func (n Name) String() string {
	index, end := fmt.Sprintf("%020d", n.Index), ""
	if n.Kind == backup.Increment {
		index = fmt.Sprintf("%020d-%020d", n.Index, n.Since)
	}
	if n.Encrypted {
		end = ".age"
	}
	return fmt.Sprintf("holdfast_%s_%06d-%s_%s_%s.%s%s", n.Cluster, n.Incarnation, n.IncarnationID, index, n.Time.UTC().Format(nameTime), n.Kind, end)
}

var namePattern = regexp.MustCompile(`^holdfast_([^_/]+)_(\d+)-([0-9a-f]*)_(\d{20})(?:-(\d{20}))?_(\d{8}T\d{6}Z)\.(full|increment)(\.age)?$`)

// ParseName reads a name; ok is false for other files.
func ParseName(text string) (n Name, ok bool) {
	m := namePattern.FindStringSubmatch(text)
	if m == nil {
		return n, false
	}
	n = Name{Cluster: m[1], IncarnationID: m[3], Kind: m[7], Encrypted: m[8] != ""}
	var errs [4]error
	n.Incarnation, errs[0] = strconv.ParseUint(m[2], 10, 64)
	n.Index, errs[1] = strconv.ParseUint(m[4], 10, 64)
	if n.Kind == backup.Increment {
		n.Since, errs[2] = strconv.ParseUint(m[5], 10, 64)
	}
	n.Time, errs[3] = time.Parse(nameTime, m[6])
	return n, errs == [4]error{} && n.String() == text
}

// SameLife tells whether both are of one incarnation of one cluster.
func (n Name) SameLife(o Name) bool {
	return n.Cluster == o.Cluster && n.Incarnation == o.Incarnation && n.IncarnationID == o.IncarnationID
}
