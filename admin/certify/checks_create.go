package certify

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Checks are all that are made, in their order.
func Checks() []Check {
	return []Check{repeatedCheck, atOnceCheck, nameCheck, bannedCheck, incompatibleCheck, invalidCheck, deletedCheck, publishedCheck, expandedCheck}
}

var repeatedCheck = Check{
	Name: "a volume is asked for again",
	Requests: func(w World) []Request {
		return w.throughAll("create", func() *adminpb.VolumeChangeRequest { return w.create("repeated") })
	},
	Rows: []RowCheck{
		{ID: "CSI-CTRL-CreateVolume-02", Says: "the same request through every controller: OK, the same id and size",
			Judge: all(coded("create", "OK"), same("create", "the id", volumeOf), same("create", "the size", sizeOf))},
		{ID: "CSI-CTRL-CreateVolume-04", Says: "afterwards one volume has the name; the audit looks at the hosts", Judge: all(coded("create", "OK"), once("create"))},
	},
}

var atOnceCheck = Check{
	Name: "a volume is asked for by several at the same moment",
	Requests: func(w World) []Request {
		return []Request{{VolumeChangeRequest: w.create("at-once"), AtOnce: 6, As: "create"}, {VolumeChangeRequest: w.create("at-once"), As: "create again"}}
	},
	Rows: []RowCheck{
		{ID: "CSI-GEN-Conc-01", Says: "six creations under one name at the same moment: OK or Aborted, and one volume",
			Judge: all(coded("create", "OK", "Aborted"), coded("create again", "OK"), once("create again"))},
	},
}

// maxName is the longest name, in bytes.
const maxName = 128

// filled is what follows the run's part of a name with so many bytes.
func (w World) filled(with string, bytes int) string {
	room := bytes - len(w.Run.Name(""))
	return strings.Repeat(with, room/len(with)) + strings.Repeat("x", room%len(with))
}

// anyUnicode is what a name may have.
const anyUnicode = " \t\r\n/../\\'\"$☃𝄞 é"

var nameCheck = Check{
	Name: "names",
	Requests: func(w World) []Request {
		return []Request{
			{VolumeChangeRequest: w.create(w.filled("n", maxName)), As: "128 bytes"},
			{VolumeChangeRequest: w.create(w.filled("n", maxName+1)), As: "129 bytes"},
			{VolumeChangeRequest: w.create(w.filled("é", maxName)), As: "128 bytes in fewer characters"},
			{VolumeChangeRequest: w.create(w.filled("é", maxName+1)), As: "129 bytes in fewer characters"},
			{VolumeChangeRequest: w.create(anyUnicode), As: "any Unicode"},
		}
	},
	Rows: []RowCheck{
		{ID: "CSI-CTRL-CreateVolume-08", Says: "a name of 128 bytes: OK; of 129: InvalidArgument", Judge: all(coded("128 bytes", "OK"), coded("129 bytes", "InvalidArgument"))},
		{ID: "CSI-GEN-Size-03", Says: "names of 128 and 129 bytes, both of fewer than 128 characters: OK and InvalidArgument",
			Judge: all(coded("128 bytes in fewer characters", "OK"), coded("129 bytes in fewer characters", "InvalidArgument"))},
		{ID: "CSI-CTRL-CreateVolume-09", Says: "a name with spaces, tab, line ends, slashes, dots, quotes and characters beyond ASCII: OK", Judge: coded("any Unicode", "OK")},
	},
}

var bannedCheck = Check{
	Name: "characters that no name may have",
	Requests: func(w World) (reqs []Request) {
		for _, r := range bannedRunes() {
			reqs = append(reqs, Request{VolumeChangeRequest: w.create("banned" + string(r)), PlanOnly: true, As: "banned"})
		}
		return reqs
	},
	Rows: []RowCheck{{ID: "CSI-CTRL-CreateVolume-10", Says: "a name with each banned character in turn: InvalidArgument", Judge: coded("banned", "InvalidArgument")}},
}

// bannedRunes are the characters that CSI bans from names.
func bannedRunes() (all []rune) {
	for _, span := range [][2]rune{{0, 8}, {0xB, 0xC}, {0xE, 0x1F}, {0x7F, 0x9F}} {
		for r := span[0]; r <= span[1]; r++ {
			all = append(all, r)
		}
	}
	return all
}

var incompatibleCheck = Check{
	Name: "the name of a volume that is otherwise",
	Requests: func(w World) []Request {
		other := func(as string, change func(*adminpb.VolumeChangeRequest)) Request {
			return Request{VolumeChangeRequest: changed(w.create("otherwise"), change), As: as}
		}
		reqs := []Request{
			{VolumeChangeRequest: w.create("otherwise"), As: "create"},
			other("size", func(r *adminpb.VolumeChangeRequest) { r.SizeBytes *= 2 }),
			other("block", func(r *adminpb.VolumeChangeRequest) { r.Block = true }),
			other("parameters", func(r *adminpb.VolumeChangeRequest) { r.Parameters = map[string]string{"encrypted": "true"} }),
		}
		if host := w.host(1); host != "" {
			reqs = append(reqs, other("host", func(r *adminpb.VolumeChangeRequest) { r.Node = host }))
		}
		return reqs
	},
	Rows: []RowCheck{
		{ID: "CSI-CTRL-CreateVolume-33", Says: "another size under the name: AlreadyExists", Judge: all(coded("create", "OK"), coded("size", "AlreadyExists"), once("create"))},
		{ID: "CSI-CTRL-CreateVolume-34", Says: "to be used raw, under the name of one with a filesystem: AlreadyExists", Judge: all(coded("create", "OK"), coded("block", "AlreadyExists"))},
		{ID: "CSI-CTRL-CreateVolume-35", Says: "encrypted, under the name of one in clear: AlreadyExists", Judge: all(coded("create", "OK"), coded("parameters", "AlreadyExists"))},
		{ID: "CSI-CTRL-CreateVolume-36", Says: "on another host, under the name: AlreadyExists", Hosts: 2, Judge: all(coded("create", "OK"), coded("host", "AlreadyExists"))},
	},
}

var invalidCheck = Check{
	Name: "requests that nothing can satisfy",
	Requests: func(w World) []Request {
		unknown := changed(w.create("unknown"), func(r *adminpb.VolumeChangeRequest) { r.Parameters = map[string]string{"holdfast-certify": "unknown"} })
		return []Request{
			{VolumeChangeRequest: unknown, As: "unknown parameter"},
			{VolumeChangeRequest: changed(w.create("beyond"), func(r *adminpb.VolumeChangeRequest) { r.SizeBytes = beyondLargest }), PlanOnly: true, As: "beyond the largest"},
			{VolumeChangeRequest: changed(w.create("no-room"), func(r *adminpb.VolumeChangeRequest) { r.SizeBytes = fsm.MaxVolumeSize }), PlanOnly: true, As: "no room"},
		}
	},
	Rows: []RowCheck{
		{ID: "CSI-CTRL-CreateVolume-16", Says: "an unknown parameter: InvalidArgument", Judge: coded("unknown parameter", "InvalidArgument")},
		{ID: "CSI-CTRL-CreateVolume-39", Says: fmt.Sprintf("one unit above the largest volume of %d bytes: OutOfRange", int64(fsm.MaxVolumeSize)), Judge: coded("beyond the largest", "OutOfRange")},
		{ID: "CSI-CTRL-CreateVolume-38", Says: "the largest volume there is, on a host without that room: ResourceExhausted", Judge: coded("no room", "ResourceExhausted")},
	},
}

var deletedCheck = Check{
	Name: "a volume is deleted again",
	Requests: func(w World) []Request {
		reqs := []Request{{VolumeChangeRequest: w.create("deleted"), As: "create"}}
		return append(reqs, w.throughAll("delete", func() *adminpb.VolumeChangeRequest { return w.of("delete", "deleted") })...)
	},
	Rows: []RowCheck{
		{ID: "CSI-CTRL-DeleteVolume-03", Says: "deleted, and again through every controller: OK, and none has the name", Judge: all(coded("create", "OK"), coded("delete", "OK"), none("delete"))},
	},
}

// none judges that no volume has the name of a request.
func none(as string) func(*Outcome) string {
	return func(o *Outcome) string {
		for _, c := range o.as(as) {
			if n := o.Listed[c.Name]; n != 0 {
				return fmt.Sprintf("%d volumes have the name %s", n, c.Name)
			}
		}
		return ""
	}
}
