package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// cryptCase is an encrypted volume that is granted, with its header made, and nothing of it active.
func cryptCase() (*VolumeSpec, *ObservedVolume) {
	const size = 64 << 20
	want := &VolumeSpec{Volume: "hf-1", Size: size, Grant: &Grant{
		Path: "/staging", FS: executor.Filesystem{Type: "ext4", UUID: "fs"}, Crypt: &CryptGrant{UUID: "luks"},
	}}
	return want, &ObservedVolume{Device: executor.Device{Exists: true, Size: size}, Crypt: &ObservedCrypt{}}
}

func TestStepsOfAnEncryptedVolume(t *testing.T) {
	below := func(h *ObservedVolume) { h.Crypt.Below = executor.Device{Exists: true, Path: "/dev/loop0"} }
	header := func(uuid string, slots ...int) func(*ObservedVolume) {
		return func(h *ObservedVolume) {
			below(h)
			h.Crypt.Header = executor.LUKSHeader{Read: true, UUID: uuid, Slots: slots}
		}
	}
	empty := func(h *ObservedVolume) {
		below(h)
		h.Crypt.Header = executor.LUKSHeader{Read: true, Empty: true}
	}
	noise := header("")
	open := func(size int64) func(*ObservedVolume) {
		return func(h *ObservedVolume) {
			header("luks", 0)(h)
			h.Crypt.Mapping = executor.Device{Exists: true, Path: "/dev/mapper/x", Size: size}
			h.Path, h.Crypt.BackedUp = h.Crypt.Mapping.Path, true
		}
	}
	restore := func(w *VolumeSpec) { w.Grant.Crypt.Restore = true }
	and := func(all ...func(*ObservedVolume)) func(*ObservedVolume) {
		return func(h *ObservedVolume) {
			for _, change := range all {
				change(h)
			}
		}
	}
	formatting := func(w *VolumeSpec) { w.Grant.Formatting, w.Grant.Crypt.Formatting = true, true }
	begunBefore := func(w *VolumeSpec) { formatting(w); w.Grant.Crypt.FormatBegunBefore = true }
	cloned := func(w *VolumeSpec) { w.Grant.Crypt.Cloned = true }
	raw := func(w *VolumeSpec) { w.Grant.Block = true }
	recorded := func(h *ObservedVolume) { h.recorded = true }
	begun := func(h *ObservedVolume) { h.recorded, h.headerBegun, h.formatBegun = true, true, true }
	replica := func(h *ObservedVolume) { h.Replica = &ObservedReplica{} }
	down := func(w *VolumeSpec) { w.TakeDown = true }
	remove := func(w *VolumeSpec) { w.Grant, w.Goal = nil, fsm.GoalRemove }
	for name, tc := range map[string]struct {
		want func(*VolumeSpec)
		have func(*ObservedVolume)
		step StepKind
	}{
		"the device below comes first":                {step: StepActivate},
		"a raw one is recorded before":                {want: raw, step: StepWriteRecord},
		"then the header is read":                     {have: below, step: StepProbeHeader},
		"the one that was made is opened":             {have: header("luks", 0), step: StepOpenMapping},
		"S62: none is missing, not to be made":        {have: empty, step: StepRefuse},
		"S62: nor is it made over noise":              {have: noise, step: StepRefuse},
		"S62: one without a slot is no header":        {have: header("luks"), step: StepRefuse},
		"S62: a missing one is restored if decided":   {want: restore, have: empty, step: StepRestoreHeader},
		"S62: also where there is noise":              {want: restore, have: noise, step: StepRestoreHeader},
		"S62: also one without a slot":                {want: restore, have: header("luks"), step: StepRestoreHeader},
		"S62: once":                                   {want: restore, have: and(empty, func(h *ObservedVolume) { h.Crypt.Restored = true }), step: StepRefuse},
		"S62: one that is there stays":                {want: restore, have: header("luks", 0), step: StepOpenMapping},
		"S62: also another one":                       {want: restore, have: header("other", 0), step: StepRefuse},
		"S65: a copy is kept by who opens it":         {have: and(open(64<<20), func(h *ObservedVolume) { h.Crypt.BackedUp = false }), step: StepBackUpHeader},
		"S62: another one is not opened":              {have: header("other", 0), step: StepRefuse},
		"S62: none of a clone's is missing too":       {want: cloned, have: empty, step: StepRefuse},
		"what is begun is recorded":                   {want: formatting, have: empty, step: StepWriteRecord},
		"the record must name the header":             {want: formatting, have: and(empty, recorded), step: StepWriteRecord},
		"then it is made":                             {want: formatting, have: and(empty, begun), step: StepFormatHeader},
		"S15: not over what is there":                 {want: formatting, have: noise, step: StepRefuse},
		"S15: not over another header":                {want: formatting, have: header("other", 0), step: StepRefuse},
		"S15: a part of one of this host is repeated": {want: formatting, have: and(noise, begun), step: StepFormatHeader},
		"S15: a part of one of the peer too":          {want: begunBefore, have: and(noise, replica), step: StepWriteRecord},
		"S15: not where there is no peer":             {want: begunBefore, have: noise, step: StepRefuse},
		"S15: and not over a whole header":            {want: begunBefore, have: and(header("other", 0), replica), step: StepRefuse},
		"a complete one is kept a copy of":            {want: formatting, have: header("luks", 0), step: StepBackUpHeader},
		"and reported before it is opened":            {want: formatting, have: and(header("luks", 0), func(h *ObservedVolume) { h.Crypt.BackedUp = true }), step: StepReportHeader},
		"a clone's gets its UUID":                     {want: cloned, have: header("source", 0), step: StepChangeHeaderUUID},
		"and a copy is kept of that":                  {want: cloned, have: header("luks", 0), step: StepBackUpHeader},
		"S65: not of what is bound already":           {have: and(open(64<<20), func(h *ObservedVolume) { h.Crypt.BackedUp, h.BoundTargets = false, []string{"/target"} }), step: StepProbe},
		"what is open is probed":                      {have: open(64 << 20), step: StepProbe},
		"a mapping that is smaller grows":             {want: raw, have: and(open(32<<20), recorded), step: StepResizeMapping},
		"a raw one is complete":                       {want: raw, have: and(open(64<<20), recorded), step: StepNone},
		"taken down, the mapping ends first":          {want: down, have: open(64 << 20), step: StepCloseMapping},
		"then the device below":                       {want: down, have: header("luks", 0), step: StepDeactivate},
		"then nothing is left":                        {want: down, step: StepNone},
		"S65: removed, its header is wiped":           {want: remove, step: StepWipeHeader},
		"then the image goes":                         {want: remove, have: func(h *ObservedVolume) { h.Crypt.Wiped = true }, step: StepRemove},
		"an unfinished image is wiped too":            {want: remove, have: func(h *ObservedVolume) { h.Exists, h.Unfinished = false, true }, step: StepWipeHeader},
		"what is open is not removed":                 {want: remove, have: open(64 << 20), step: StepCloseMapping},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := cryptCase()
			if tc.want != nil {
				tc.want(want)
			}
			if tc.have != nil {
				tc.have(have)
			}
			require.Equal(t, tc.step, NextVolumeStep(want, have).Kind)
		})
	}
}

func TestTheRecordNamesTheHeaderThatWasBegun(t *testing.T) {
	want, have := cryptCase()
	have.CompareRecord(&records.VolumeRecord{FormattingHeader: "other"}, want)
	require.False(t, have.headerBegun)
	have.CompareRecord(&records.VolumeRecord{FormattingHeader: "luks"}, want)
	require.True(t, have.headerBegun)
}
