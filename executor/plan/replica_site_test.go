package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	testKept      fsm.SnapshotID = "hs-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d01"
	testOtherKept fsm.SnapshotID = "hs-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d02"
)

func converting(want *ReplicaSpec) {
	want.Converting, want.Seed, want.InitialSyncDone, want.UpToDate, want.Peer.Incomplete = true, true, false, false, true
}

func convertedCopy(want *ReplicaSpec) {
	want.Converting, want.SyncFromSeed, want.InitialSyncDone, want.Outdated = true, true, false, true
}

func unconverting(want *ReplicaSpec) {
	want.Unconvert, want.Seed, want.InitialSyncDone, want.Connect = true, true, false, false
}

func apart(want *ReplicaSpec) { want.Apart, want.Connect, want.Attachment = true, false, 1 }

func discardUnkept(want *ReplicaSpec) { want.DiscardUnkept = true }

func keepDue(want *ReplicaSpec) { want.Outdated, want.KeepDue, want.Connect = true, true, false }

func reverting(want *ReplicaSpec) { want.Outdated, want.RevertTo, want.Connect = true, testKept, false }

func reverted(want *ReplicaSpec) {
	want.Outdated, want.Force, want.Reverted, want.Connect = true, true, true, false
}

// plain is the image of a volume without DRBD.
func plain(h *ObservedReplica) {
	*h = ObservedReplica{Backing: executor.Device{Exists: true, Size: testGib}, AttachDue: true, ConnectDue: true}
}

func plainActive(h *ObservedReplica) { plain(h); h.Backing = activeDevice; h.Backing.Size = testGib }

func conversionBegun(h *ObservedReplica) { plain(h); h.Recorded, h.PlainBytes = true, testGib }

func extended(h *ObservedReplica) {
	conversionBegun(h)
	h.Backing.Size, h.BackingCapacity = testGib+1<<20, testGib
}

func extendedActive(h *ObservedReplica) {
	extended(h)
	h.Backing = activeDevice
	h.Backing.Size = testGib + 1<<20
}

func configured(h *ObservedReplica) { h.HasConfig, h.ConfigCurrent = true, true }

func metadataJustMade(h *ObservedReplica) {
	h.MetadataMade, h.HasMetadata, h.JustCreated = true, true, true
}

func wasPlain(h *ObservedReplica) { h.PlainBytes = testGib; h.Backing.Size = testGib + 1<<20 }

func revertBegun(h *ObservedReplica) { h.Reverting = testKept }

func contentReverted(h *ObservedReplica) { h.Reverting, h.ContentReverted = testKept, true }

func otherReverted(h *ObservedReplica) { h.Reverting, h.ContentReverted = testOtherKept, true }

func revertedAlready(h *ObservedReplica) { h.RevertedTo = testKept }

func ioFrozen(h *ObservedReplica) { h.Suspended, h.Frozen = true, true }

func TestNextReplicaStepBetweenSites(t *testing.T) {
	type w = []func(*ReplicaSpec)
	type h = []func(*ObservedReplica)
	for name, tc := range map[string]struct {
		want w
		have h
		kind StepKind
	}{
		"S55 nobody has the plain device open":             {w{converting}, h{plainActive}, StepDeactivateBacking},
		"S55 what it was is recorded first":                {w{converting}, h{plain}, StepBeginConversion},
		"S55 then there is room behind the content":        {w{converting}, h{conversionBegun}, StepExtendBacking},
		"S55 then it is as every replica's":                {w{converting}, h{extended}, StepActivateBacking},
		"S55 with a file":                                  {w{converting}, h{extendedActive}, StepConfigure},
		"S55 with metadata, which are new":                 {w{converting}, h{extendedActive, configured}, StepCreateMetadata},
		"S55 once: made again they would be a target's":    {w{converting}, h{extendedActive, configured, func(x *ObservedReplica) { x.MetadataMade = true }}, StepRefuse},
		"S14 S55 none without a conversion":                {nil, h{extendedActive, configured}, StepRefuse},
		"S14 S55 nor where none was begun":                 {w{converting, func(x *ReplicaSpec) { x.Seed = false }}, h{extendedActive, configured}, StepRefuse},
		"S5 S55 the log gets its attachment":               {w{converting}, h{extendedActive, configured, metadataJustMade}, StepProposeAttach},
		"S55 the first generation is the content's":        {w{converting}, h{justCreated}, StepNewUUID},
		"S55 by its host only":                             {w{convertedCopy}, h{justCreated}, StepNone},
		"S55 then the other one is copied":                 {w{convertedCopy}, h{}, StepInvalidate},
		"S55 never the content":                            {w{converting, syncFromSeed}, h{}, StepNone},
		"S55 nor is it asked for":                          {w{converting}, h{standingAlone, inconsistent}, StepNone},
		"S55 S67 nor made anew":                            {w{converting}, h{noDisk, diskGivenUp}, StepNone},
		"S55 a new one waits for it":                       {w{converting}, h{standingAlone, justCreated}, StepConnect},
		"S14 S55 a missing image is not made":              {w{converting}, h{backingMissing}, StepNone},
		"S55 undone: it is disconnected":                   {w{unconverting}, h{wasPlain}, StepDisconnect},
		"S55 undone: and out of the kernel":                {w{unconverting}, h{wasPlain, standingAlone}, StepDownResource},
		"S55 undone: then the file":                        {w{unconverting}, h{wasPlain, notInKernel}, StepRemoveConfig},
		"S55 undone: then the device is let go":            {w{unconverting}, h{wasPlain, notInKernel, notConfigured}, StepDeactivateBacking},
		"S55 undone: what was added is cut off":            {w{unconverting}, h{wasPlain, notInKernel, notConfigured, backingInactive}, StepShrinkBacking},
		"S55 undone: the record goes last":                 {w{unconverting}, h{extended, func(x *ObservedReplica) { x.Backing.Size = testGib }}, StepForgetReplicaRecord},
		"S1 S55 undone: not what another conversion made":  {w{unconverting}, h{notInKernel, notConfigured, backingInactive}, StepRefuse},
		"S55 undone: once":                                 {w{unconverting}, h{plain}, StepNone},
		"S55 undone: also where nothing was extended":      {w{unconverting}, h{conversionBegun}, StepForgetReplicaRecord},
		"S12 S55 undone: not in an absent pool":            {w{unconverting}, h{notInKernel, notConfigured, poolAbsent}, StepNone},
		"S55 undone: a lost image is not cut":              {w{unconverting}, h{wasPlain, notInKernel, notConfigured, backingMissing}, StepForgetReplicaRecord},
		"S48 apart: it is disconnected":                    {w{apart}, h{}, StepDisconnect},
		"S48 apart: also when it waits":                    {w{apart}, h{connecting}, StepDisconnect},
		"S48 apart: it is to be kept one day":              {w{apart}, h{standingAlone}, StepNoteApart},
		"S48 apart: once":                                  {w{apart}, h{standingAlone, mayHaveWrites}, StepNone},
		"S48 apart: not what was never attached":           {w{apart, func(x *ReplicaSpec) { x.Attachment = 0 }}, h{standingAlone}, StepNone},
		"S48 apart: it is not attached":                    {w{apart, outdated}, h{notInKernel, mayHaveWrites, attachmentCommitted}, StepNone},
		"S48 apart: nor kept yet":                          {w{apart, outdated}, h{notInKernel, mayHaveWrites}, StepNone},
		"S48 apart: nor made anew":                         {w{apart, outdated, peerAttached}, h{notInKernel, mayHaveWrites, diskGivenUp}, StepNone},
		"S48 apart: nor are its options adjusted":          {w{apart}, h{standingAlone, mayHaveWrites, notAdjusted, staleConfig}, StepNone},
		"S9 S48 apart: but what is up ends":                {w{apart, outdated}, h{primary, ioSuspended, mounted, connecting}, StepDetachDisk},
		"S9 S48 apart: to the end":                         {w{apart, outdated}, h{primary, mounted, noDisk}, StepTearDownVictim},
		"S48 decided: it is kept before it is attached":    {w{outdated}, h{notInKernel, mayHaveWrites}, StepKeepVictim},
		"S48 decided: unless that is waived":               {w{outdated, discardUnkept}, h{notInKernel, mayHaveWrites}, StepProposeAttach},
		"S48 decided: also where it is attached":           {w{outdated, discardUnkept}, h{standingAlone, mayHaveWrites}, StepConnectDiscard},
		"S50 a whole secondary is kept":                    {w{keepDue}, h{standingAlone, outdatedDisk}, StepKeepBeforeSync},
		"S50 also when its kernel knows nothing":           {w{keepDue}, h{standingAlone, consistent}, StepKeepBeforeSync},
		"S50 disconnected":                                 {w{keepDue}, h{connecting, outdatedDisk}, StepDisconnect},
		"S50 by the log's word":                            {w{keepDue, func(x *ReplicaSpec) { x.KeepDue = false }}, h{standingAlone, outdatedDisk}, StepNone},
		"S50 not half a content":                           {w{keepDue}, h{standingAlone, inconsistent, fullyOutOfSync}, StepNone},
		"S50 it is attached before":                        {w{keepDue}, h{notInKernel}, StepProposeAttach},
		"S9 S50 one that may have writes loses none":       {w{keepDue}, h{standingAlone, mayHaveWrites}, StepKeepVictim},
		"S50 once for each answer":                         {w{keepDue}, h{standingAlone, outdatedDisk, func(x *ObservedReplica) { x.KeepAnswered = true }}, StepNone},
		"S50 again after that":                             {w{keepDue}, h{standingAlone, copyKept}, StepKeepBeforeSync},
		"S50 without a copy where that is waived":          {w{keepDue, discardUnkept}, h{standingAlone, mayHaveWrites}, StepKeepBeforeSync},
		"S8 S50 not what is to go on":                      {w{keepDue, forced}, h{standingAlone, outdatedDisk}, StepNone},
		"S43 revert: disconnected":                         {w{reverting}, h{connecting, inconsistent}, StepDisconnect},
		"S43 revert: out of the kernel":                    {w{reverting}, h{standingAlone, inconsistent}, StepDownResource},
		"S43 revert: the device is let go":                 {w{reverting}, h{notInKernel}, StepDeactivateBacking},
		"S43 revert: then it is reverted":                  {w{reverting}, h{notInKernel, backingInactive}, StepRevertBacking},
		"S43 revert: again after a crash":                  {w{reverting}, h{notInKernel, backingInactive, revertBegun}, StepRevertBacking},
		"S43 revert: also where another was begun":         {w{reverting}, h{notInKernel, backingInactive, otherReverted}, StepRevertBacking},
		"S43 revert: then the device is there":             {w{reverting}, h{notInKernel, backingInactive, contentReverted}, StepActivateBacking},
		"S43 revert: with its file":                        {w{reverting}, h{notInKernel, staleConfig, contentReverted}, StepConfigure},
		"S43 revert: its metadata are made anew":           {w{reverting}, h{notInKernel, contentReverted}, StepRemakeReverted},
		"S43 revert: never attached before":                {w{reverting}, h{notInKernel, contentReverted, attachmentCommitted}, StepRemakeReverted},
		"S43 revert: nor before the log knows":             {w{reverting}, h{notInKernel, revertedAlready, attachmentCommitted}, StepNone},
		"S43 given up: not attached as it is":              {nil, h{notInKernel, contentReverted, attachmentCommitted}, StepRefuse},
		"S8 S43 given up: by no decision either":           {w{outdated, forced}, h{notInKernel, contentReverted, attachmentCommitted}, StepRefuse},
		"S67 S43 given up: it is copied from its peer":     {w{peerUpToDate}, h{notInKernel, revertBegun}, StepRemakeMetadata},
		"S43 reverted: it is attached":                     {w{reverted}, h{notInKernel, metadataJustMade}, StepProposeAttach},
		"S43 reverted: and becomes primary by force":       {w{reverted, published}, h{standingAlone, justCreated}, StepSetPrimary},
		"S43 reverted: not without a decision":             {w{reverted, published, func(x *ReplicaSpec) { x.Force, x.Outdated = false, false }}, h{standingAlone, justCreated}, StepNone},
		"S43 no other disk with half a content":            {w{published, outdated, forced}, h{standingAlone, inconsistent}, StepNone},
		"S45 what is frozen is disconnected":               {nil, h{primary, ioFrozen}, StepDisconnect},
		"S45 also when it waits":                           {nil, h{primary, ioFrozen, connecting}, StepDisconnect},
		"S45 and connects after its verdict only":          {nil, h{primary, ioFrozen, standingAlone}, StepNone},
		"S6 S45 as every primary without frozen I/O":       {nil, h{primary, ioSuspended, standingAlone}, StepConnect},
		"S9 S45 frozen, and lost":                          {w{outdated}, h{primary, ioFrozen, standingAlone}, StepDetachDisk},
		"S9 S45 frozen, and lost: then writers get errors": {w{outdated}, h{primary, ioFrozen, standingAlone, noDisk}, StepResumeIO},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := wantedReplica(tc.want...), haveReplica(tc.have...)
			for range 2 {
				require.Equal(t, tc.kind, NextReplicaStep(want, have).Kind)
			}
		})
	}
}

// S45: only a primary without a peer, whose writes nobody holds back yet.
func TestS45_WhatIsFrozenWhenItIsIsolated(t *testing.T) {
	alone := executor.ResourceStatus{InKernel: true, Primary: true, Disk: DiskUpToDate, Connection: ConnConnecting}
	for name, tc := range map[string]struct {
		change func(*executor.ResourceStatus)
		want   bool
	}{
		"alone":             {func(*executor.ResourceStatus) {}, true},
		"standing alone":    {func(h *executor.ResourceStatus) { h.Connection = connStandAlone }, true},
		"with its peer":     {func(h *executor.ResourceStatus) { h.Connection = ConnConnected }, false},
		"suspended already": {func(h *executor.ResourceStatus) { h.Suspended = true }, false},
		"a secondary":       {func(h *executor.ResourceStatus) { h.Primary = false }, false},
		"not in the kernel": {func(h *executor.ResourceStatus) { h.InKernel = false }, false},
	} {
		h := alone
		tc.change(&h)
		require.Equal(t, tc.want, FreezesIsolated(&h), name)
	}
}

// S43, S55: what a host did is reported when all of it was done, and by nobody in another session.
func TestS43_S55_FactsOfReplicasBetweenSites(t *testing.T) {
	down := ObservedReplica{Backing: executor.Device{Exists: true, Size: testGib}}
	for name, tc := range map[string]struct {
		want   fsm.DesiredReplica
		have   ObservedReplica
		record *records.ReplicaRecord
		fact   string
	}{
		"the conversion is undone":      {fsm.DesiredReplica{Unconvert: true}, down, nil, factUnconverted},
		"not while there is a record":   {fsm.DesiredReplica{Unconvert: true}, down, &records.ReplicaRecord{}, ""},
		"not while it is active":        {fsm.DesiredReplica{Unconvert: true}, ObservedReplica{Backing: activeDevice}, nil, ""},
		"not in an absent pool":         {fsm.DesiredReplica{Unconvert: true}, ObservedReplica{Backing: executor.Device{Absent: true}}, nil, ""},
		"a restored one never began":    {fsm.DesiredReplica{Converting: true, Seed: true, ConversionRestored: true}, down, nil, factUnconverted},
		"not where the image is gone":   {fsm.DesiredReplica{Converting: true, Seed: true, ConversionRestored: true}, ObservedReplica{}, nil, ""},
		"it is reverted":                {fsm.DesiredReplica{RevertTo: testKept}, down, &records.ReplicaRecord{RevertedTo: testKept}, factReverted},
		"not before the metadata":       {fsm.DesiredReplica{RevertTo: testKept}, down, &records.ReplicaRecord{Reverting: testKept, ContentReverted: true}, ""},
		"not to another copy":           {fsm.DesiredReplica{RevertTo: testKept}, down, &records.ReplicaRecord{RevertedTo: testOtherKept}, ""},
		"nothing of it was ever wanted": {fsm.DesiredReplica{}, down, &records.ReplicaRecord{RevertedTo: testKept}, ""},
	} {
		for _, actionable := range []bool{true, false} {
			view := &VolumeView{
				Actionable: actionable, Desired: &fsm.DesiredVolume{Replication: &tc.want}, Have: ObservedVolume{Replica: &tc.have},
				Record: &records.VolumeRecord{Replica: tc.record},
			}
			want := tc.fact
			if !actionable {
				want = ""
			}
			require.Equal(t, want, view.unreportedReplicaFact().Name, name)
		}
	}
}

// S55: an image that is being converted, or made plain again, has another size than its volume, and is not grown for that.
func TestS55_AConvertedImageIsNotExpanded(t *testing.T) {
	for name, d := range map[string]*fsm.DesiredReplica{"converting": {Converting: true}, "undone": {Unconvert: true}} {
		view := &VolumeView{
			Actionable: true, Desired: &fsm.DesiredVolume{Goal: fsm.GoalKeep, Size: testGib, Operation: 7, Replication: d}, Record: &records.VolumeRecord{},
			Have: ObservedVolume{Device: executor.Device{Exists: true, Size: testGib - 1<<20}, Replica: &ObservedReplica{}},
		}
		want := BackgroundSpec(view)
		require.Equal(t, Step{}, NextVolumeStep(&want, &view.Have), name)
	}
}
