package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Phase is a volume's life: Creating -> Ready -> Deleting -> (gone), or Failed.
//
//sumtype:decl
type Phase interface{ phase() }

type (
	// Creating: placed and reserved; its host has not reported the device yet.
	Creating struct{}
	// Ready: the device exists. Only a Ready volume has publications.
	Ready struct {
		Publications []Publication // sorted by node
	}
	// Deleting: the name is free; the record is the pending removal of the devices (S18).
	Deleting struct{ Since Epoch }
	// Failed: the create failed for good; the next create with the name makes a
	// new volume and turns this one into a pending removal.
	Failed struct {
		Reason  string
		NoSpace bool // the host's pool was full
	}
)

func (Creating) phase() {}
func (Ready) phase()    {}
func (Deleting) phase() {}
func (Failed) phase()   {}

// Phases as a VolumeRecord numbers them.
const (
	phaseCreating uint32 = iota + 1
	phaseReady
	phaseDeleting
	phaseFailed
)

func hashPhase(e *encoder, p Phase) {
	switch p := p.(type) {
	case Creating:
		e.u64(1)
	case Ready:
		e.u64(2)
		e.u64(uint64(len(p.Publications)))
		for i := range p.Publications {
			hashPublication(e, &p.Publications[i])
		}
	case Deleting:
		e.u64(3)
		e.epoch(p.Since)
	case Failed:
		e.u64(4)
		e.str(p.Reason)
		e.bool(p.NoSpace)
	}
}

func (w *volumeRecordWriter) phase(p Phase) {
	r := &w.r
	r.Phase, r.Publications, r.DeletingSince, r.FailedReason, r.FailedNoSpace = 0, nil, nil, "", false
	switch p := p.(type) {
	case Creating:
		r.Phase = phaseCreating
	case Ready:
		r.Phase = phaseReady
		for i := range p.Publications {
			r.Publications = append(r.Publications, w.d.publication(&p.Publications[i]))
		}
	case Deleting:
		r.Phase, r.DeletingSince = phaseDeleting, p.Since.Proto()
	case Failed:
		r.Phase, r.FailedReason, r.FailedNoSpace = phaseFailed, p.Reason, p.NoSpace
	}
}

func (x *dumpDecoder) phase(r *fsmpb.VolumeRecord, err *error) Phase {
	switch r.GetPhase() {
	case phaseCreating:
		return Creating{}
	case phaseReady:
		if len(r.GetPublications()) == 0 {
			return unpublished
		}
		var ready Ready
		for _, p := range r.GetPublications() {
			ready.Publications = append(ready.Publications, x.publication(p, err))
		}
		return ready
	case phaseDeleting:
		return Deleting{Since: EpochFrom(r.GetDeletingSince())}
	case phaseFailed:
		return Failed{Reason: r.GetFailedReason(), NoSpace: r.GetFailedNoSpace()}
	}
	*err = errForm
	return nil
}
