package lvm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestARevertReplacesTheVolumeByAFinishedCopy(t *testing.T) {
	p, f := newFakePool(t)
	for range 2 {
		f.commands = nil
		require.NoError(t, p.Revert(t.Context(), testVolumeID, testSnapshotID))
		require.Equal(t, []string{"lvcreate", "lvchange", "lvrename", "lvrename", "lvremove"}, f.changes())
	}
	for _, refused := range []error{
		p.Revert(t.Context(), testVolumeID, "hs-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99"),
		p.Revert(t.Context(), testUnfinishedID, testSnapshotID),
		p.Revert(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99", testSnapshotID),
	} {
		require.Equal(t, fsm.Precondition, reason(refused))
	}
}

func TestAVolumeInUseIsNotReverted(t *testing.T) {
	p, f := newFakePool(t)
	f.devices[dmName("vg-a", string(testVolumeID))] = &dmDevice{major: 254, minor: 6, open: 1}
	require.Equal(t, fsm.InUse, reason(p.Revert(t.Context(), testVolumeID, testSnapshotID)), "somebody has it open below")
	f.devices[p.layerName(testVolumeID)] = &dmDevice{major: 254, minor: 7}
	require.Equal(t, fsm.InUse, reason(p.Revert(t.Context(), testVolumeID, testSnapshotID)))
	require.Equal(t, fsm.InUse, reason(p.Shrink(t.Context(), testVolumeID, 16<<20)))
	require.Empty(t, f.changes())
}

// renamed is the captured report after the first rename of a Revert.
func renamed(f *fakeHost) []byte {
	report := strings.Replace(string(f.lvs), `"lv_name":"`+string(testVolumeID)+`"`, `"lv_name":"`+string(testVolumeID)+replacedSuffix+`"`, 1)
	report = strings.Replace(report, `"lv_name":"`+string(testUnfinishedID)+`"`, `"lv_name":"`+string(testVolumeID)+revertedSuffix+`"`, 1)
	return []byte(strings.Replace(report, `"holdfast,holdfast-size=16777216"`, `"holdfast,holdfast-ready,holdfast-size=16777216"`, 1))
}

// Between its two renames a Revert leaves no logical volume of the volume's name: the volume is what
// will have it.
func TestARevertWithoutItsLastRenameIsFinishedByWhoeverComesNext(t *testing.T) {
	for name, act := range map[string]func(p *Pool) error{
		"a repetition": func(p *Pool) error { return p.Revert(t.Context(), testVolumeID, testSnapshotID) },
		"a removal":    func(p *Pool) error { return p.Remove(t.Context(), testVolumeID) },
		"a creation":   func(p *Pool) error { return p.Create(t.Context(), testVolumeID, 16<<20) },
		"of another": func(p *Pool) error {
			return p.Remove(t.Context(), "hf-6f1d3a52-7f3b-4c1e-8a44-0e7d9d2b1c99")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newFakePool(t)
			f.lvs = renamed(f)
			d, err := p.Observe(t.Context(), testVolumeID)
			require.NoError(t, err)
			require.Equal(t, executor.Device{Exists: true, Unfinished: true, Size: 16 << 20}, d)
			requireKinds(t, p, map[string]string{revertedSuffix: executor.KindImage, replacedSuffix: executor.KindUnfinished})
			f.failures["lvm lvrename"] = &run.Error{Tool: "lvm", Code: 5, Output: "no"}
			require.ErrorContains(t, act(p), "finish the revert of volume "+string(testVolumeID), "nothing is made of the name meanwhile")
			delete(f.failures, "lvm lvrename")
			f.commands = nil
			f.after = func(command string) {
				if command == "lvm lvrename" {
					f.after = nil
					f.lvs = []byte(strings.Replace(string(f.lvs), string(testVolumeID)+revertedSuffix, string(testVolumeID), 1))
				}
			}
			require.NoError(t, act(p))
			require.Equal(t, "lvrename", f.changes()[0])
			require.Contains(t, strings.Join(f.commands, "\n"), "lvrename --config "+p.tools.config+" -y vg-a "+string(testVolumeID)+revertedSuffix+" "+string(testVolumeID)+"\n")
		})
	}
}

// requireKinds checks how the inventory lists what has the volume's name with a suffix.
func requireKinds(t *testing.T, p *Pool, want map[string]string) {
	t.Helper()
	items, err := p.Inventory(t.Context())
	require.NoError(t, err)
	got := map[string]string{}
	for _, item := range items {
		if suffix, ok := strings.CutPrefix(item.Path, p.lvPath(string(testVolumeID))); ok {
			require.Equal(t, testVolumeID, item.Volume)
			got[suffix] = item.Kind
		}
	}
	require.Equal(t, want, got)
}

// A copy that was finished for a Revert that replaced nothing is not the volume, also when the volume
// is lost later.
func TestALeftoverOfARevertIsNeverTheVolume(t *testing.T) {
	for name, spoil := range map[string]func(report string) string{
		"the volume is lost": func(report string) string {
			return strings.Replace(report, string(testVolumeID)+replacedSuffix, "lost", 1)
		},
		"the copy is not finished": func(report string) string {
			return strings.Replace(report, `"holdfast,holdfast-ready,holdfast-size=16777216"`, `"holdfast,holdfast-size=16777216"`, 1)
		},
		"the copy is another's": func(report string) string {
			return strings.Replace(report, `"holdfast,holdfast-ready,holdfast-size=16777216"`, `"holdfast-ready"`, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, f := newFakePool(t)
			f.lvs = []byte(spoil(string(renamed(f))))
			d, err := p.Observe(t.Context(), testVolumeID)
			require.NoError(t, err)
			require.Equal(t, executor.Device{Unfinished: true}, d)
			require.Equal(t, fsm.Precondition, reason(p.Revert(t.Context(), testVolumeID, testSnapshotID)))
			require.NotContains(t, f.changes(), "lvrename")
		})
	}
}
