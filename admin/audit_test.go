package admin

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// found formats findings as "kind path".
func found(in []*adminpb.Finding) []string {
	return mapSlice(in, func(f *adminpb.Finding) string { return f.GetKind() + " " + f.GetPath() })
}

func TestAudit(t *testing.T) {
	const staging = "/stage/1"
	stranger := fsm.VolumeID("hf-99999999-0000-4000-8000-000000000000")
	for name, tc := range map[string]struct {
		arrange                   func(w *env) // prepares the volume with id 1
		orphans, missing, pending []string
		checked                   int
		unknown                   []string
	}{
		"an empty cluster is clean": {arrange: func(*env) {}},
		"a Ready volume with its image is clean": {checked: 1, arrange: func(w *env) {
			w.items["n1"] = []Item{imageItem(w.create(1, true))}
		}},
		"a Ready volume without its image is missing": {checked: 1,
			arrange: func(w *env) { w.create(1, true) },
			missing: []string{"image volumes/hf-00000000-0000-4000-8000-000000000001.img"}},
		"TestS14: an image that the state does not know is an orphan": {
			arrange: func(w *env) { w.items["n1"] = []Item{imageItem(stranger)} },
			orphans: []string{"image /pool/volumes/" + string(stranger) + ".img"}},
		"a file without a volume's name is an orphan": {
			arrange: func(w *env) { w.items["n1"] = []Item{{Kind: "image", Path: "/pool/volumes/x"}} },
			orphans: []string{"image /pool/volumes/x"}},
		"a volume being made is pending, whether its file is there or not": {checked: 1,
			arrange: func(w *env) { w.create(1, false) },
			pending: []string{"image volumes/hf-00000000-0000-4000-8000-000000000001.img"}},
		"a volume being deleted is pending while its file is there": {checked: 1,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.items["n1"] = []Item{imageItem(id), {Kind: "unfinished", ID: id, Path: "/pool/tmp/x"}}
				w.delete(id)
			},
			pending: []string{"image /pool/volumes/hf-00000000-0000-4000-8000-000000000001.img", "unfinished /pool/tmp/x"}},
		"TestS18: what a host owes that cannot be asked is pending, and the host unknown": {
			arrange: func(w *env) {
				w.create(2, true)
				w.delete(w.create(1, true))
				w.unreachable["n1"] = errors.New("no session")
			},
			pending: []string{"image volumes/hf-00000000-0000-4000-8000-000000000001.img"},
			unknown: []string{"n1"}},
		"a staged volume with one loop device and one mount is clean": {checked: 1, arrange: func(w *env) {
			id := w.create(1, true)
			w.stage(id, staging)
			w.items["n1"] = []Item{imageItem(id), {Kind: "loop", ID: id, Path: "/dev/loop0"}, {Kind: "mount", ID: id, Path: staging}}
		}},
		"a second loop device and a strange mount are orphans": {checked: 1,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.stage(id, staging)
				w.items["n1"] = []Item{imageItem(id), {Kind: "loop", ID: id, Path: "/dev/loop1"}, {Kind: "loop", ID: id, Path: "/dev/loop0"},
					{Kind: "mount", ID: id, Path: staging}, {Kind: "mount", ID: id, Path: "/elsewhere"}}
			},
			orphans: []string{"loop /dev/loop1", "mount /elsewhere"}},
		"a staged volume without device and mount misses both": {checked: 1,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.stage(id, staging)
				w.items["n1"] = []Item{imageItem(id)}
			},
			missing: []string{"loop ", "mount " + staging}},
		"a loop device and a mount of a volume that is only published are orphans": {checked: 1,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.publish(id)
				w.items["n1"] = []Item{imageItem(id), {Kind: "loop", ID: id, Path: "/dev/loop0"}, {Kind: "mount", ID: id, Path: staging}}
			},
			orphans: []string{"loop /dev/loop0", "mount " + staging}},
		"TestS31: a revoked publication that its host has not ended is pending": {checked: 1,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.stage(id, staging)
				w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_SetNodeReachable{
					SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}}})
				w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_UnpublishVolume{
					UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: "n1"}}})
				w.items["n1"] = []Item{imageItem(id), {Kind: "loop", ID: id, Path: "/dev/loop0"}, {Kind: "mount", ID: id, Path: staging}}
			},
			pending: []string{"loop /dev/loop0", "mount " + staging}},
		"a snapshot with its file is clean": {checked: 2, arrange: func(w *env) {
			id := w.create(1, true)
			w.items["n1"] = []Item{imageItem(id), snapshotItem(w.snapshot(id, true))}
		}},
		"a snapshot outlives its source": {checked: 1, arrange: func(w *env) {
			id := w.create(1, true)
			w.items["n1"] = []Item{snapshotItem(w.snapshot(id, true))}
			w.delete(id)
			w.observe(&fsmpb.Observation{VolumeId: string(id), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
		}},
		"a snapshot without its file is missing": {checked: 2,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.snapshot(id, true)
				w.items["n1"] = []Item{imageItem(id)}
			},
			missing: []string{"snapshot snapshots/" + snapshotOne + ".img"}},
		"TestS14: a snapshot's file that the state does not know is an orphan": {
			arrange: func(w *env) { w.items["n1"] = []Item{snapshotItem(snapshotOne)} },
			orphans: []string{"snapshot /pool/snapshots/" + snapshotOne + ".img"}},
		"an unfinished copy of a snapshot that is cut is an orphan": {checked: 2,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.items["n1"] = []Item{imageItem(id), snapshotItem(w.snapshot(id, true)), {Kind: "unfinished", Snapshot: snapshotOne, Path: "/pool/tmp/x"}}
			},
			orphans: []string{"unfinished /pool/tmp/x"}},
		"a snapshot being cut is pending": {checked: 2,
			arrange: func(w *env) {
				id := w.create(1, true)
				w.snapshot(id, false)
				w.items["n1"] = []Item{imageItem(id), {Kind: "unfinished", Snapshot: snapshotOne, Path: "/pool/tmp/x"}}
			},
			pending: []string{"unfinished /pool/tmp/x"}},
		"S74: a snapshot that was given up is to be removed": {checked: 2, arrange: func(w *env) {
			id := w.create(1, true)
			w.snapshot(id, false)
			w.items["n1"] = []Item{imageItem(id)}
			w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_CancelOperation{CancelOperation: &fsmpb.CancelOperation{OperationId: w.index}}})
		}, pending: []string{"snapshot snapshots/" + snapshotOne + ".img"}},
		"TestS18: a snapshot that an unreachable host must remove is pending": {
			arrange: func(w *env) {
				w.deleteSnapshot(w.snapshot(w.create(1, true), true))
				w.unreachable["n1"] = errors.New("no session")
			},
			pending: []string{"snapshot snapshots/" + snapshotOne + ".img"},
			unknown: []string{"n1"}},
		"a lost host is not asked": {
			arrange: func(w *env) {
				w.unreachable["n1"] = errors.New("gone")
				w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_LoseNode{LoseNode: &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1"}}})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, "n1")
			tc.arrange(w)
			for range 2 { // an audit changes nothing
				resp := w.audit()
				require.ElementsMatch(t, tc.orphans, found(resp.GetOrphans()), "orphans")
				require.ElementsMatch(t, tc.missing, found(resp.GetMissing()), "missing")
				require.ElementsMatch(t, tc.pending, found(resp.GetPending()), "pending")
				require.EqualValues(t, tc.checked, resp.GetChecked())
				require.Equal(t, w.index, resp.GetIndex())
				require.ElementsMatch(t, tc.unknown, mapSlice(resp.GetUnknown(), (*adminpb.Unknown).GetNode))
			}
		})
	}
}

func TestAuditReportsOnlyRepeatedFindings(t *testing.T) {
	w := newEnv(t, "n1")
	id := w.create(1, true)
	w.items["n1"] = []Item{imageItem(id)}
	looks := 0
	w.asked = func() {
		if looks++; looks == 1 { // deleted and removed between the inventory and the read
			w.items["n1"] = []Item{imageItem(id)}
			w.delete(id)
			w.observe(&fsmpb.Observation{VolumeId: string(id), Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
			return
		}
		w.items["n1"] = nil
	}
	resp := w.audit()
	require.Empty(t, resp.GetOrphans())
	require.Equal(t, 2, looks)

	w = newEnv(t, "n1")
	_, have := w.stageEncrypted()
	looks = 0
	w.asked = func() { // a header is written between the inventory and the read; then a mapping changes
		looks++
		w.items["n1"] = nil
		for _, item := range have {
			seen := *item
			switch {
			case looks == 1 && item.Kind == kindImage:
				seen.HeaderUUID = ""
			case looks == 2 && item.Kind == kindMapping:
				seen.WrongDevice = "/dev/loop9"
			}
			w.items["n1"] = append(w.items["n1"], seen)
		}
	}
	require.Empty(t, w.audit().GetWrong())
	require.Equal(t, 2, looks)
}

func TestAuditNeedsAQuorum(t *testing.T) {
	w := newEnv(t, "n1")
	w.quorum = errNoQuorum
	for range 2 {
		_, err := w.server.Audit(context.Background(), &adminpb.AuditRequest{})
		require.Equal(t, codes.Unavailable, status.Code(err))
	}
}
