package leaks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	driver = "csi.holdfast.storage"
	va     = "hf-00000000-0000-4000-8000-00000000000a"
	vb     = "hf-00000000-0000-4000-8000-00000000000b"
	vc     = "hf-00000000-0000-4000-8000-00000000000c"
	sa     = "hs-00000000-0000-4000-8000-00000000000a"
)

const kubernetes = `{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":[
{"kind":"PersistentVolume","metadata":{"name":"pv-a"},"spec":{"csi":{"driver":"csi.holdfast.storage","volumeHandle":"` + va + `"},"claimRef":{"namespace":"ns","name":"data"}}},
{"kind":"PersistentVolume","metadata":{"name":"pv-c"},"spec":{"csi":{"driver":"csi.holdfast.storage","volumeHandle":"` + vc + `"}}},
{"kind":"PersistentVolume","metadata":{"name":"nfs"},"spec":{"nfs":{"server":"x"}}},
{"kind":"PersistentVolume","metadata":{"name":"other"},"spec":{"csi":{"driver":"other","volumeHandle":"` + vb + `"}}},
{"kind":"VolumeSnapshotContent","metadata":{"name":"content-1"},"spec":{"driver":"csi.holdfast.storage","source":{"volumeHandle":"` + va + `"},"volumeSnapshotRef":{"namespace":"ns","name":"snap"}},"status":{"snapshotHandle":"` + sa + `"}},
{"kind":"VolumeAttachment","metadata":{"name":"csi-1"},"spec":{"attacher":"csi.holdfast.storage","nodeName":"n2","source":{"persistentVolumeName":"pv-a"}},"status":{"attached":true}},
{"kind":"VolumeAttachment","metadata":{"name":"csi-2"},"spec":{"attacher":"csi.holdfast.storage","nodeName":"n3","source":{"persistentVolumeName":"pv-a"}},"status":{"attached":false}}
]}`

func TestAKubernetesListIsRead(t *testing.T) {
	l, err := Read(strings.NewReader(kubernetes), driver)
	require.NoError(t, err)
	require.Equal(t, &List{
		HasVolumes: true, HasSnapshots: true, HasAttachments: true,
		Volumes:     []Object{{va, "pv-a", "ns/data"}, {vc, "pv-c", ""}},
		Snapshots:   []Object{{sa, "content-1", "ns/snap"}},
		Attachments: []Attachment{{"csi-1", "pv-a", "n2"}},
	}, l)
	typed := `{"kind":"PersistentVolumeList","items":[{"metadata":{"name":"pv-a"},"spec":{"csi":{"driver":"csi.holdfast.storage","volumeHandle":"` + va + `"}}}]}`
	l, err = Read(strings.NewReader(typed+"\n"+`{"kind":"VolumeSnapshotContentList","items":[]}`), driver)
	require.NoError(t, err)
	require.True(t, l.HasVolumes && l.HasSnapshots && !l.HasAttachments)
	require.Len(t, l.Volumes, 1)
	require.Equal(t, []string{"attachments: the list has none"}, l.Missing())
}

func TestAPlainListIsRead(t *testing.T) {
	l, err := Read(strings.NewReader("# volumes\n"+va+"\n\n  "+sa+"\n"), driver)
	require.NoError(t, err)
	require.Equal(t, &List{HasVolumes: true, HasSnapshots: true, Volumes: []Object{{Handle: va}}, Snapshots: []Object{{Handle: sa}}}, l)
}

// With a list that is not whole everything would be a leak.
func TestAListThatIsNotWholeIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":              {"", "empty"},
		"blanks":               {" \n\t\n", "empty"},
		"comments only":        {"# volumes\n", "nothing of driver"},
		"an empty list":        {`{"kind":"List","items":[]}`, "nothing of driver"},
		"another driver's":     {strings.ReplaceAll(kubernetes, driver, "other"), "nothing of driver"},
		"a line cut short":     {va + "\n" + vb[:20], "no end"},
		"a whole line, no end": {va, "no end"},
		"a line of something":  {va + "\npvc-1\n", "line 2"},
		"JSON cut short":       {kubernetes[:len(kubernetes)-3], "cut short"},
		"JSON and more":        {kubernetes + "x", "cut short"},
		"an array":             {`[]`, "cut short"},
		"a first part":         {`{"kind":"List","metadata":{"continue":"x"},"items":[]}`, "first part"},
		"a part by its count":  {`{"kind":"List","metadata":{"remainingItemCount":3},"items":[]}`, "first part"},
		"pods":                 {`{"kind":"PodList","items":[]}`, "PodList"},
		"no kind":              {`{"items":[]}`, "without a kind"},
		"a list in a list":     {`{"kind":"List","items":[{"kind":"List","items":[]}]}`, "list in it"},
		"an error":             {"Error from server (Forbidden)\n", "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tc.text), driver)
			require.ErrorContains(t, err, tc.want)
		})
	}
	for cut := 1; cut < len(kubernetes); cut += 7 {
		_, err := Read(strings.NewReader(kubernetes[:cut]), driver)
		require.Error(t, err, kubernetes[:cut])
	}
}

func FuzzRead(f *testing.F) {
	f.Add(kubernetes)
	f.Add(va + "\n" + sa + "\n")
	f.Add(`{"kind":"List","items":[null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := Read(strings.NewReader(text), driver); err == nil {
			require.NotEmpty(t, len(l.Volumes)+len(l.Snapshots))
		}
	})
}

func found(list []*adminpb.Leak) (all []string) {
	for _, f := range list {
		all = append(all, strings.Join([]string{f.GetKind(), f.GetId(), f.GetRecord(), strings.Join(f.GetNodes(), ",")}, " "))
	}
	return all
}

func options() Options {
	return Options{TakenBefore: time.Unix(1000, 0), Remedy: func(kind, _, record string) string { return kind + " " + record }}
}

func TestWhatOnlyOneHasIsFound(t *testing.T) {
	volume := func(id, phase string, nodes ...string) *adminpb.Volume {
		v := &adminpb.Volume{Id: id, Name: "name-" + id, Phase: phase, Origin: "default", Home: "default", SizeBytes: 1 << 30}
		for _, n := range nodes {
			v.Publications = append(v.Publications, &adminpb.Publication{Node: n})
		}
		return v
	}
	const young, creating, deleting = "hf-00000000-0000-4000-8000-0000000000f1", "hf-00000000-0000-4000-8000-0000000000f2", "hf-00000000-0000-4000-8000-0000000000f3"
	state := State{
		Volumes: []*adminpb.Volume{volume(va, "ready", "n1"), volume(vb, "ready", "n1"), volume(young, "ready"), volume(creating, "creating"), volume(deleting, "deleting"), volume(vc, "deleting")},
		Snapshots: []*adminpb.Snapshot{
			{Id: sa, Phase: "ready", Source: va}, {Id: "hs-leaked", Phase: "ready", Source: va, Node: "n1"}, {Id: "hs-kept", Phase: "ready", Source: va, Kept: &adminpb.Kept{}},
		},
		Made: map[string]Event{vb: {time.Unix(10, 0), "controller/c1"}, young: {time.Unix(2000, 0), "controller/c1"}, "hs-leaked": {At: time.Unix(10, 0)}}, Used: map[string]Event{vb: {time.Unix(20, 0), ""}},
	}
	l, err := Read(strings.NewReader(kubernetes), driver)
	require.NoError(t, err)
	got := Compare(l, state, options())
	require.Equal(t, []string{
		"leak " + vb + "  n1", "lost " + vc + " pv-c ", "leaked-snapshot hs-leaked  n1", "published-only " + va + " pv-a n1", "attached-only " + va + " csi-1 n2",
	}, found(got.GetFound()))
	require.Equal(t, []string{"leak " + young + "  "}, found(got.GetYoung()))
	leak := got.GetFound()[0]
	require.Equal(t, "1970-01-01T00:00:10Z", leak.GetMade())
	require.Equal(t, "controller/c1", leak.GetMadeBy())
	require.Equal(t, "1970-01-01T00:00:20Z", leak.GetLastUse())
	require.Equal(t, "it is being deleted", got.GetFound()[1].GetDetail())
	for _, f := range got.GetFound() {
		require.NotEmpty(t, f.GetRemedy())
	}
	require.Equal(t, got.String(), Compare(l, state, options()).String(), "asked twice")
}

// What a list says nothing of is not compared: a list of volumes makes no snapshot a leak.
func TestOnlyWhatTheListIsOfIsCompared(t *testing.T) {
	state := State{Volumes: []*adminpb.Volume{{Id: va, Phase: "ready", Publications: []*adminpb.Publication{{Node: "n1"}}}}, Snapshots: []*adminpb.Snapshot{{Id: sa, Phase: "ready", Source: va}}}
	l, err := Read(strings.NewReader(va+"\n"), driver)
	require.NoError(t, err)
	require.Empty(t, Compare(l, state, options()).GetFound())
	l, err = Read(strings.NewReader(sa+"\n"), driver)
	require.NoError(t, err)
	require.Empty(t, Compare(l, state, options()).GetFound())
}

// Where several orchestrators use the cluster, what the others have is no leak.
func TestAListIsOfOneSite(t *testing.T) {
	volumes := []*adminpb.Volume{
		{Id: va, Phase: "ready", Origin: "east", Home: "east"}, {Id: vb, Phase: "ready", Origin: "west", Home: "west"},
		{Id: vc, Phase: "ready", Origin: "west", Home: "west", Sites: []string{"east", "west"}},
	}
	require.ErrorContains(t, CheckSite(volumes, ""), "--site")
	require.ErrorContains(t, CheckSite(volumes, "north"), "north")
	require.NoError(t, CheckSite(volumes, "east"))
	require.NoError(t, CheckSite(volumes[:1], ""))
	require.NoError(t, CheckSite(nil, ""))
	state := State{Volumes: volumes, Site: "east", Snapshots: []*adminpb.Snapshot{{Id: "hs-west", Phase: "ready", Source: vb}}}
	l := &List{HasVolumes: true, HasSnapshots: true, Volumes: []Object{{Handle: va}}}
	require.Empty(t, found(Compare(l, state, options()).GetFound()), "the replica of a volume of the west is no leak of the east's")
	state.Site, l.Volumes[0].Handle = "west", vb
	state.Made = map[string]Event{vc: {At: time.Unix(10, 0)}}
	got := Compare(l, state, options())
	require.Equal(t, []string{"leak " + vc + "  "}, found(got.GetFound()))
}

// What operators made is in no orchestrator's list, and what may be young is not to be removed.
func TestWhatMayBeInUseIsNoLeak(t *testing.T) {
	state := State{Volumes: []*adminpb.Volume{{Id: va, Phase: "ready", MadeBy: "admin/ann"}, {Id: vb, Phase: "ready"}},
		Snapshots: []*adminpb.Snapshot{{Id: sa, Phase: "ready", Source: va}}, Made: map[string]Event{va: {At: time.Unix(10, 0)}, sa: {At: time.Unix(10, 0)}}}
	l := &List{HasVolumes: true, HasSnapshots: true, Volumes: []Object{{Handle: vc}}}
	got := Compare(l, state, options())
	require.Equal(t, []string{"lost " + vc + "  "}, found(got.GetFound()))
	require.Equal(t, []string{"leak " + vb + "  "}, found(got.GetYoung()))
	require.Empty(t, got.GetYoung()[0].GetRemedy(), "nobody knows when it was made")
}

func TestTheJournalSaysWhoMadeWhat(t *testing.T) {
	s := State{Made: map[string]Event{}, Used: map[string]Event{}}
	entry := func(kind, actor string, rejected bool, ids ...string) {
		e := &adminpb.HistoryEntry{Kind: kind, Actor: actor, At: "2026-01-02T03:04:05.000000000Z", Volumes: ids, Outcome: &fsmpb.Outcome{VolumeId: ids[0]}}
		if rejected {
			e.Outcome.Rejection = &fsmpb.Rejection{}
		}
		if strings.HasPrefix(ids[0], "hs-") {
			e.Snapshots, e.Volumes, e.Outcome = ids[:1], ids[1:], &fsmpb.Outcome{}
		}
		require.NoError(t, s.ReadHistory(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: e}}))
	}
	require.NoError(t, s.ReadHistory(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Header{Header: &adminpb.HistoryHeader{}}}))
	entry("create_volume", "rejected", true, va)
	entry("create_volume", "first", false, va, vb)
	entry("create_volume", "joined", false, va)
	entry("create_snapshot", "third", false, sa, vb)
	entry("publish_volume", "fourth", false, vb)
	require.Equal(t, "first", s.Made[va].Actor)
	require.Equal(t, "third", s.Made[sa].Actor)
	require.NotContains(t, s.Made, vb, "a source was not made by its copy")
	require.Equal(t, "fourth", s.Used[vb].Actor)
	require.Equal(t, 2026, s.Used[vb].At.Year())
}
