package admin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	mappingPath = "/dev/mapper/hfc-00000000-0000-4000-8000-000000000001"
	backupPath  = "/data/headers/hf-00000000-0000-4000-8000-000000000001.luks"
)

// stageEncrypted is an encrypted volume that is staged on n1, with what n1 has of it.
func (w *env) stageEncrypted() (fsm.VolumeID, map[string]*Item) {
	w.t.Helper()
	id, epoch := w.createEncrypted()
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 4, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
	image := imageItem(id)
	image.HeaderRead, image.HeaderUUID = true, luksUUID
	return id, map[string]*Item{
		kindImage:   &image,
		kindLoop:    {Kind: kindLoop, ID: id, Path: "/dev/loop0"},
		kindMount:   {Kind: kindMount, ID: id, Path: "/staging"},
		kindMapping: {Kind: kindMapping, ID: id, Path: mappingPath, HeaderRead: true, HeaderUUID: luksUUID},
		kindBackup:  {Kind: kindBackup, ID: id, Path: backupPath, HeaderRead: true, HeaderUUID: luksUUID},
	}
}

func (w *env) unstageEncrypted(id fsm.VolumeID) {
	w.t.Helper()
	epoch := publicationOn(w.volume(id), w.node("n1")).Epoch
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch.Proto(), Sequence: 5, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
}

func (w *env) node(id fsm.NodeID) *fsm.Node {
	w.t.Helper()
	n, ok := w.state.Node(id)
	require.True(w.t, ok)
	return n
}

// without is what the host has, but for these kinds.
func without(have map[string]*Item, kinds ...string) {
	for _, kind := range kinds {
		delete(have, kind)
	}
}

func TestAuditOfEncryptedVolumes(t *testing.T) {
	const (
		stranger = fsm.VolumeID("hf-99999999-0000-4000-8000-000000000000")
		other    = " of LUKS header " + otherLUKS + ", and not of " + luksUUID + " that was made"
		lost     = " no LUKS header, and not " + luksUUID + " that was made"
		image    = "/pool/volumes/hf-00000000-0000-4000-8000-000000000001.img"
	)
	for name, tc := range map[string]struct {
		arrange                          func(w *env, id fsm.VolumeID, have map[string]*Item)
		orphans, missing, wrong, pending []string
	}{
		"a staged one with its mapping, header and copy is clean": {},
		"one that is not staged keeps its copy": {arrange: func(w *env, id fsm.VolumeID, have map[string]*Item) {
			w.unstageEncrypted(id)
			without(have, kindMapping, kindLoop, kindMount)
		}},
		"one that is not staged has no mapping": {arrange: func(w *env, id fsm.VolumeID, have map[string]*Item) {
			w.unstageEncrypted(id)
			without(have, kindLoop, kindMount)
		}, orphans: []string{"mapping " + mappingPath}},
		"a mapping of a volume that the state does not know is an orphan": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have["more"] = &Item{Kind: kindMapping, ID: stranger, Path: "/dev/mapper/x"}
		}, orphans: []string{"mapping /dev/mapper/x"}},
		"so is one without a volume's name": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have["more"] = &Item{Kind: kindMapping, Path: "/dev/mapper/hfc-x"}
		}, orphans: []string{"mapping /dev/mapper/hfc-x"}},
		"a copy of a header that belongs to no volume is an orphan": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have["more"] = &Item{Kind: kindBackup, ID: stranger, Path: "/data/headers/x.luks", HeaderRead: true, HeaderUUID: otherLUKS}
		}, orphans: []string{"header_backup /data/headers/x.luks"}},
		"a part of a copy is an orphan": {arrange: func(_ *env, id fsm.VolumeID, have map[string]*Item) {
			have["more"] = &Item{Kind: kindUnfinished, ID: id, Path: backupPath + ".new"}
		}, orphans: []string{"unfinished " + backupPath + ".new"}},
		"a volume in clear has neither": {arrange: func(w *env, _ fsm.VolumeID, have map[string]*Item) {
			clear := w.create(2, true)
			item := imageItem(clear)
			have["image 2"], have["mapping 2"] = &item, &Item{Kind: kindMapping, ID: clear, Path: "/dev/mapper/2"}
			have["copy 2"] = &Item{Kind: kindBackup, ID: clear, Path: "/data/headers/2.luks"}
		}, orphans: []string{"mapping /dev/mapper/2", "header_backup /data/headers/2.luks"}},
		"a staged one without its mapping misses it": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			without(have, kindMapping)
		}, missing: []string{"mapping "}},
		"a staged one without a copy of its header misses that": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			without(have, kindBackup)
		}, missing: []string{"header_backup "}},
		"of a host that lists no mappings they are not known": {arrange: func(w *env, _ fsm.VolumeID, have map[string]*Item) {
			w.olderBuild = true
			without(have, kindMapping, kindBackup)
		}},
		"a host that began anew has no mapping until the volume is staged again": {arrange: func(w *env, _ fsm.VolumeID, have map[string]*Item) {
			again := w.registration("n1")
			again.BootId, again.Replication = "boot 2", nil
			w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_RegisterNode{RegisterNode: again}})
			without(have, kindMapping, kindLoop, kindMount)
		}},
		"a mapping above another device is wrong": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have[kindMapping].WrongDevice = "/dev/loop9"
		}, wrong: []string{"mapping " + mappingPath + " above /dev/loop9, which is not the volume's device"}},
		"so is one of another header": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have[kindMapping].HeaderUUID = otherLUKS
		}, wrong: []string{"mapping " + mappingPath + other}},
		"an image with another header is wrong": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have[kindImage].HeaderUUID = otherLUKS
		}, wrong: []string{"header " + image + other}},
		"so is one without a header": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have[kindImage].HeaderUUID = ""
		}, wrong: []string{"header " + image + lost}},
		"and a copy of another header": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			have[kindBackup].HeaderUUID = otherLUKS
		}, wrong: []string{"header_backup " + backupPath + other}},
		"what could not be read is not known": {arrange: func(_ *env, _ fsm.VolumeID, have map[string]*Item) {
			for _, kind := range []string{kindImage, kindMapping, kindBackup} {
				have[kind].HeaderRead, have[kind].HeaderUUID = false, ""
			}
		}},
		"a volume being deleted is pending as a whole": {arrange: func(w *env, id fsm.VolumeID, have map[string]*Item) {
			w.unstageEncrypted(id)
			w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: "n1"}}})
			w.delete(id)
			without(have, kindMapping, kindLoop, kindMount)
			have[kindImage].HeaderUUID = ""
		}, pending: []string{"image " + image, "header_backup " + backupPath}},
		"TestS31: a mapping of a revoked publication is pending": {arrange: func(w *env, id fsm.VolumeID, _ map[string]*Item) {
			w.setUnreachable("n1")
			w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: "n1"}}})
		}, pending: []string{"loop /dev/loop0", "mapping " + mappingPath, "mount /staging"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, "n1")
			id, have := w.stageEncrypted()
			if tc.arrange != nil {
				tc.arrange(w, id, have)
			}
			w.items["n1"] = nil
			for _, item := range have {
				w.items["n1"] = append(w.items["n1"], *item)
			}
			for range 2 {
				resp := w.audit()
				require.ElementsMatch(t, tc.orphans, found(resp.GetOrphans()), "orphans")
				require.ElementsMatch(t, tc.missing, found(resp.GetMissing()), "missing")
				require.ElementsMatch(t, tc.pending, found(resp.GetPending()), "pending")
				var wrong []string
				for _, f := range resp.GetWrong() {
					wrong = append(wrong, f.GetKind()+" "+f.GetPath()+" "+f.GetDetail())
				}
				require.ElementsMatch(t, tc.wrong, wrong, "wrong")
				var out bytes.Buffer
				require.NoError(t, Print(&out, "table", resp))
				for _, f := range resp.GetWrong() {
					require.Contains(t, out.String(), f.GetDetail())
				}
			}
		})
	}
}

// TestAnAuditDuringAStageFindsNothing checks every state on the way to a staged volume: the header is being made, it
// was made and nothing is open, and the mapping is open and not reported.
func TestAnAuditDuringAStageFindsNothing(t *testing.T) {
	w := newEnv(t, "n1")
	id, epoch := w.createEncrypted()
	image := imageItem(id)
	loop := Item{Kind: kindLoop, ID: id, Path: "/dev/loop0"}
	requireClean := func(items ...Item) {
		t.Helper()
		w.items["n1"] = items
		resp := w.audit()
		require.Empty(t, resp.GetOrphans())
		require.Empty(t, resp.GetMissing())
		require.Empty(t, resp.GetWrong())
	}
	made := image
	made.HeaderRead, made.HeaderUUID = true, luksUUID
	mapping := Item{Kind: kindMapping, ID: id, Path: mappingPath, HeaderRead: true, HeaderUUID: luksUUID}
	backup := Item{Kind: kindBackup, ID: id, Path: backupPath, HeaderRead: true, HeaderUUID: luksUUID}
	requireClean(image)
	requireClean(image, loop)
	requireClean(made, loop, backup)
	requireClean(made, loop, mapping, backup)
	w.observe(&fsmpb.Observation{VolumeId: string(id), Epoch: epoch, Sequence: 4, Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging"}}})
	requireClean(made, loop, mapping, backup, Item{Kind: kindMount, ID: id, Path: "/staging"})

	w = newEnv(t, "n1")
	id = w.createUnformatted()
	image.HeaderRead = true // and there is none yet
	requireClean(image)
	w.beginStage(id)
	requireClean(image, loop)
	requireClean(made, loop, backup)
}

// TestAnAuditOfAReplicaWithoutTheDataFindsNoHeader checks that only a replica that is up to date must have it.
func TestAnAuditOfAReplicaWithoutTheDataFindsNoHeader(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	v := *w.volume(id)
	v.Crypt = &fsm.Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: luksUUID}
	item := imageItem(id)
	item.HeaderRead = true
	compare := func(node fsm.NodeID) int {
		var f findings
		c := comparison{findings: &f, node: w.node(node), volume: &v, items: []Item{item}}
		c.compareHeader()
		return len(f.wrong)
	}
	require.Equal(t, []int{1, 1}, []int{compare("n1"), compare("n2")})
	v.Replicas = append([]fsm.Replica(nil), v.Replicas...)
	sync := *v.Replicas[1].ReplicaSync
	sync.UpToDate = false
	v.Replicas[1].ReplicaSync = &sync
	require.Equal(t, []int{1, 0}, []int{compare("n1"), compare("n2")})
	v.Crypt = &fsm.Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: luksUUID, Cloned: true}
	require.Equal(t, []int{0, 0}, []int{compare("n1"), compare("n2")}, "a clone's gets its UUID at its first stage")
}
