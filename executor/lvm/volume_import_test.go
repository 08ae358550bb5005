package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// lvmGroup is a volume group that lvs shows, and that lvchange and lvrename change.
type lvmGroup struct {
	*fakeHost
	t    *testing.T
	rows []map[string]string
	// dieAfter ends the process after so many changes; negative: never. A dead one changes nothing.
	dieAfter int
	changed  int
}

var errKilled = errors.New("the process was killed")

const importedUUID = "dAtAaa-0000-0000-0000-0000-0000-000001"

func newGroup(t *testing.T) (*Pool, *lvmGroup) {
	t.Helper()
	g := &lvmGroup{t: t, dieAfter: -1, fakeHost: &fakeHost{outputs: map[string]string{"vg--a-pool-tpool": goodStatus}, devices: map[string]*dmDevice{}, failures: map[string]error{}}}
	var report struct {
		Report []struct {
			LV []map[string]string `json:"lv"`
		} `json:"report"`
	}
	require.NoError(t, json.Unmarshal(readTestdata(t, "lvs.json"), &report))
	g.rows = report.Report[0].LV
	g.add("data_00000", importedUUID, "thin,sparse", "pool", "")
	return g.open(), g
}

func (g *lvmGroup) add(name, uuid, layout, pool, origin string) {
	g.rows = append(g.rows, map[string]string{
		"vg_uuid": g.rows[0]["vg_uuid"], "vg_extent_size": "4194304", "lv_name": name, "lv_uuid": uuid, "lv_size": "20971520", "lv_tags": "theirs", "lv_layout": layout,
		"pool_lv": pool, "thin_id": "9", "transaction_id": "1", "zero": "zero", "chunk_size": "0", "origin": origin, "lv_permissions": "writeable",
	})
}

// open is what a new process has of the pool.
func (g *lvmGroup) open() *Pool {
	g.t.Helper()
	g.dieAfter, g.changed = -1, 0
	p, err := newPool(g.t.Context(), Config{VG: "vg-a", ThinPool: "pool", KnownID: testPoolID, Runner: g})
	require.NoError(g.t, err)
	p.kernel = g
	return p
}

func (g *lvmGroup) row(uuid string) map[string]string {
	for _, r := range g.rows {
		if r["lv_uuid"] == uuid {
			return r
		}
	}
	g.t.Fatalf("there is no logical volume %s", uuid)
	return nil
}

func (g *lvmGroup) Run(ctx context.Context, c run.Command) ([]byte, error) {
	command := c.Args[0]
	if c.Tool == "wipefs" {
		_, _ = c.Stdout.Write([]byte(g.outputs[c.Args[len(c.Args)-1]]))
		return nil, nil
	}
	if changes := c.Tool == "lvm" && command != "lvs" && command != "lvmconfig"; changes {
		if g.dieAfter >= 0 && g.changed >= g.dieAfter {
			return nil, errKilled
		}
		g.changed++
		g.change(c.Args)
	}
	text, err := json.Marshal(map[string]any{"report": []any{map[string]any{"lv": g.rows}}})
	require.NoError(g.t, err)
	g.lvs = text
	return g.fakeHost.Run(ctx, c)
}

func (g *lvmGroup) change(args []string) {
	if args[0] == "lvrename" {
		from, to := args[len(args)-2], args[len(args)-1]
		require.False(g.t, slices.ContainsFunc(g.rows, func(r map[string]string) bool { return r["lv_name"] == to }))
		for _, r := range g.rows {
			if r["lv_name"] == from {
				r["lv_name"] = to
				return
			}
		}
	}
	at := slices.Index(args, "-S")
	if args[0] != "lvchange" || at < 0 {
		return
	}
	for _, r := range g.rows {
		if args[at+1] != `lv_uuid="`+r["lv_uuid"]+`"` {
			continue
		}
		tags := strings.Split(r["lv_tags"], ",")
		for i, arg := range args {
			switch arg {
			case "--addtag":
				tags = append(tags, args[i+1])
			case "--deltag":
				tags = slices.DeleteFunc(tags, func(tag string) bool { return tag == args[i+1] })
			}
		}
		slices.Sort(tags)
		r["lv_tags"] = strings.Join(slices.Compact(tags), ",")
	}
}

const importID = fsm.VolumeID("hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c77")

func (g *lvmGroup) requireImported(p *Pool) {
	g.t.Helper()
	d, err := p.Observe(g.t.Context(), importID)
	require.NoError(g.t, err)
	require.Equal(g.t, executor.Device{Exists: true, Size: 20 << 20}, d)
	require.Equal(g.t, string(importID), g.row(importedUUID)["lv_name"])
	require.Contains(g.t, g.row(importedUUID)["lv_tags"], "theirs")
}

func (g *lvmGroup) requireGivenBack(p *Pool) {
	g.t.Helper()
	d, err := p.Observe(g.t.Context(), importID)
	require.NoError(g.t, err)
	require.Zero(g.t, d)
	require.Equal(g.t, "data_00000", g.row(importedUUID)["lv_name"])
	require.Equal(g.t, "theirs", g.row(importedUUID)["lv_tags"])
}

// S15: an import and its end rename and tag, and run no command that could touch what is on the device. Both may be asked twice.
func TestS15_AnImportOnlyRenamesAndTags(t *testing.T) {
	p, g := newGroup(t)
	for range 2 {
		require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
		g.requireImported(p)
	}
	for range 2 {
		require.NoError(t, p.GiveBack(t.Context(), importID, importedUUID))
		g.requireGivenBack(p)
	}
	require.Equal(t, []string{"lvchange", "lvrename", "lvchange", "lvchange", "lvrename", "lvchange"}, g.changes())
}

// S14: killed after any command, an import goes on, or is given back, and what it left is neither removed nor made again.
func TestS14_AnImportThatWasKilledGoesOnOrIsGivenBack(t *testing.T) {
	for killed := range 7 {
		for _, giveBack := range []bool{false, true} {
			p, g := newGroup(t)
			if g.dieAfter = killed; killed > 3 { // in the give-back
				g.dieAfter = -1
				require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
				g.dieAfter, g.changed = killed-4, 0
				_ = p.GiveBack(t.Context(), importID, importedUUID)
			} else if err := p.Import(t.Context(), importID, 20<<20, importedUUID); killed < 3 {
				require.ErrorIs(t, err, errKilled)
			}
			p = g.open()
			d, err := p.Observe(t.Context(), importID)
			require.NoError(t, err)
			if !d.Exists {
				require.NoError(t, p.Remove(t.Context(), importID))
			}
			require.NotContains(t, g.changes(), "lvremove")
			require.NotContains(t, g.changes(), "lvcreate")
			items, err := p.Inventory(t.Context())
			require.NoError(t, err)
			listed := slices.ContainsFunc(items, func(i executor.InventoryItem) bool { return i.Volume == importID })
			require.Equal(t, d.Exists || d.Unfinished, listed)
			if giveBack {
				require.NoError(t, p.GiveBack(t.Context(), importID, importedUUID))
				g.requireGivenBack(p)
				continue
			}
			require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
			g.requireImported(p)
		}
	}
}

func TestAnImportOfWhatIsNotAsItWasIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		want   fsm.Reason
		change func(g *lvmGroup)
	}{
		"replaced by one of its name": {fsm.Precondition, func(g *lvmGroup) { g.row(importedUUID)["lv_uuid"] = "other" }},
		"another size":                {fsm.Precondition, func(g *lvmGroup) { g.row(importedUUID)["lv_size"] = "25165824" }},
		"open":                        {fsm.InUse, func(g *lvmGroup) { g.devices["vg--a-data_00000"] = &dmDevice{open: 1} }},
		"a volume already":            {fsm.Precondition, func(g *lvmGroup) { g.row(importedUUID)["lv_tags"] = "holdfast" }},
		"being another volume":        {fsm.Precondition, func(g *lvmGroup) { g.row(importedUUID)["lv_tags"] = importTag(testVolumeID, "x") }},
		"a pool that does not zero": {fsm.Precondition, func(g *lvmGroup) {
			for _, r := range g.rows {
				r["zero"] = ""
			}
		}},
		"a name that no tag keeps": {fsm.Precondition, func(g *lvmGroup) { g.row(importedUUID)["lv_name"] = strings.Repeat("x", maxNameLength+1) }},
		"no volume of the pool":    {fsm.Precondition, func(g *lvmGroup) { g.row(importedUUID)["pool_lv"] = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			p, g := newGroup(t)
			tc.change(g)
			for range 2 {
				require.Equal(t, tc.want, reason(p.Import(t.Context(), importID, 20<<20, importedUUID)))
			}
			require.Empty(t, g.changes())
		})
	}
}

// One that was put in its place while it is renamed gets its name back.
func TestALogicalVolumeThatTookTheNameIsNotImported(t *testing.T) {
	p, g := newGroup(t)
	g.row(importedUUID)["lv_name"] = "moved"
	g.add("data_00000", "other", "thin,sparse", "pool", "")
	_, err := p.volumes.renameDevice(t.Context(), importedUUID, "data_00000", string(importID)) // the name as it was read before
	require.Equal(t, fsm.Precondition, reason(err))
	require.Equal(t, "data_00000", g.row("other")["lv_name"])
	require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
	g.requireImported(p)
}

func TestAGiveBackIsRefused(t *testing.T) {
	for name, change := range map[string]func(g *lvmGroup){
		"where its name is taken": func(g *lvmGroup) { g.add("data_00000", "other", "thin,sparse", "pool", "") },
		"where the volume is another device": func(g *lvmGroup) {
			g.row(importedUUID)["lv_name"] = "x"
			g.add(string(importID), "other", "thin,sparse", "pool", "")
			g.row("other")["lv_tags"] = tagOurs
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, g := newGroup(t)
			require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
			change(g)
			g.commands = nil
			require.Equal(t, fsm.Precondition, reason(p.GiveBack(t.Context(), importID, importedUUID)))
			require.Empty(t, g.changes())
		})
	}
	p, g := newGroup(t)
	require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
	g.devices[p.layerName(importID)] = &dmDevice{}
	require.Equal(t, fsm.InUse, reason(p.GiveBack(t.Context(), importID, importedUUID)))
}

// Another logical volume under the volume's name keeps the device from being given back only where it is Holdfast's.
func TestADeviceIsGivenBackWhereItsVolumesNameIsAnothersByNow(t *testing.T) {
	p, g := newGroup(t)
	require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
	g.row(importedUUID)["lv_name"] = "x"
	g.add(string(importID), "other", "thin,sparse", "pool", "")
	for range 2 {
		require.NoError(t, p.GiveBack(t.Context(), importID, importedUUID))
	}
	require.Equal(t, "x", g.row(importedUUID)["lv_name"])
	require.Equal(t, "theirs", g.row(importedUUID)["lv_tags"])
	require.Equal(t, string(importID), g.row("other")["lv_name"])
}

// One that is opened while it is renamed is not taken in; closed again, it is.
func TestADeviceThatIsOpenedDuringItsImportIsInUse(t *testing.T) {
	p, g := newGroup(t)
	opened := "vg--a-" + strings.ReplaceAll(string(importID), "-", "--")
	g.devices[opened] = &dmDevice{open: 1}
	for range 2 {
		require.Equal(t, fsm.InUse, reason(p.Import(t.Context(), importID, 20<<20, importedUUID)))
		require.NotContains(t, strings.Split(g.row(importedUUID)["lv_tags"], ","), tagOurs)
	}
	delete(g.devices, opened)
	require.NoError(t, p.Import(t.Context(), importID, 20<<20, importedUUID))
	g.requireImported(p)
}

func TestCandidatesAreAllThatIsNotOurs(t *testing.T) {
	p, g := newGroup(t)
	g.add("thick", "thick-uuid", "linear", "", "")
	g.add("external", "external-uuid", "thin,sparse", "pool", "golden")
	g.add("snapshot of external", "snapshot-uuid", "thin,sparse", "pool", "external")
	g.add("snapshot", "own-uuid", "thin,sparse", "pool", "data_00000")
	g.add("read-only", "ro-uuid", "thin,sparse", "pool", "data_00000")
	g.row("ro-uuid")["lv_permissions"] = "read-only"
	g.devices["vg--a-data_00000"] = &dmDevice{major: 253, minor: 5, open: 2}
	g.outputs["/dev/dm-5"] = "ext4\ndos\next4\n"
	before := len(g.changes())
	for range 2 {
		all, err := p.Candidates(t.Context())
		require.NoError(t, err)
		byName := map[string]executor.ImportCandidate{}
		for _, c := range all {
			byName[c.Name] = c
		}
		require.Len(t, byName, 7)
		data := byName["data_00000"]
		require.Equal(t, executor.ImportCandidate{
			Device: importedUUID, Name: "data_00000", Size: 20 << 20, Path: "/dev/dm-5", Number: data.Number, OpenCount: 2, Probed: true, Signatures: []string{"dos", "ext4"},
		}, data)
		require.Contains(t, byName["thick"].Refusal, "no thin volume")
		require.Contains(t, byName["thick"].Detail, "lvchange -ay")
		require.Contains(t, byName["thick"].Refusal, "lvcreate -V 20971520b --thinpool")
		require.Contains(t, byName["external"].Refusal, "golden")
		require.Contains(t, byName["snapshot of external"].Refusal, "golden", "its holes are the external origin's, too")
		require.Empty(t, byName["snapshot"].Refusal)
		require.Contains(t, byName["read-only"].Refusal, "read-only")
	}
	require.Len(t, g.changes(), before)
}

// A device is found by LVM's UUID under either name, and not while it is open.
func TestADeviceIsLocatedByItsUUID(t *testing.T) {
	p, g := newGroup(t)
	_, err := p.Locate(t.Context(), "another")
	require.ErrorContains(t, err, "removed or replaced")
	for range 2 {
		d, err := p.Locate(t.Context(), importedUUID)
		require.NoError(t, err)
		require.Equal(t, executor.Device{Exists: true, Size: 20 << 20}, d, "it is not active")
	}
	g.devices["vg--a-data_00000"] = &dmDevice{major: 253, minor: 5}
	d, err := p.Locate(t.Context(), importedUUID)
	require.NoError(t, err)
	require.Equal(t, "/dev/dm-5", d.Path)
	g.devices["vg--a-data_00000"].open = 1
	_, err = p.Locate(t.Context(), importedUUID)
	require.ErrorContains(t, err, "open")
	require.Empty(t, g.changes())
}
