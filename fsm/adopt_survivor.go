package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// hostsLost tells whether the volume has failed because every host that this log had it on was recorded as lost. One that
// could not be made has an operation, or was removed with its host.
func (v *Volume) hostsLost() bool { return v.isFailed() && v.Operation == nil && v.allGone() }

// survives tells whether hosts have a volume of which this log knows lost hosts only: the lost log had converted it to a
// replicated one, or had moved its replicas.
func (a *adoption) survives(v *Volume) bool {
	return v.hostsLost() && a.newest.GetManifest().GetReplication() != nil
}

// adoptSurvivor takes in a volume that failed with all hosts that this log has it on, from those that the lost log gave its
// replicas. It is as one that this log does not know: nothing counts but what its host will observe, and alone it takes an
// operator's decision before anybody uses it (S5, S8).
func (s *State) adoptSurvivor(m Meta, v *Volume, a *adoption) (*fsmpb.Outcome, *Rejection) {
	if s.decidedSince(v) {
		return nil, Reject(Precondition, "adopt volume %s: a host that is lost acted for it since the restore, so that what others have may be older: copy what their devices have to a new volume", v.ID)
	}
	survivor, rej := s.adoptedVolume(m, a)
	if rej != nil {
		return nil, rej
	}
	survivor.Created = v.Created
	return s.putAdoptedVolume(survivor)
}

// putAdoptedVolume puts a volume that is made of manifests only.
func (s *State) putAdoptedVolume(v Volume) (*fsmpb.Outcome, *Rejection) {
	if rej := s.checkWhole(&v); rej != nil {
		return nil, rej
	}
	s.intern.volume(&v)
	s.putVolume(v)
	s.bumpAdopted(&v)
	return &fsmpb.Outcome{VolumeId: string(v.ID)}, nil
}
