package backendtest

import "github.com/holdfast-storage/holdfast/fsm"

// fakeFaults has the effects of a backend fail as a test asked for.
type fakeFaults struct{ *fakeState }

// before checks the volume's id, and returns the failure that SetFail set for an effect on it. The
// lock must not be held.
func (f fakeFaults) before(effect string, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	return f.failure(effect, id)
}

// beforeSnapshot is before for an effect on a snapshot.
func (f fakeFaults) beforeSnapshot(effect string, id fsm.SnapshotID) error {
	if err := checkSnapshotID(id); err != nil {
		return err
	}
	return f.failure(effect, fsm.VolumeID(id))
}

func (f fakeFaults) failure(effect string, id fsm.VolumeID) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		if err := fail(effect, id); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent && effect != "detach" {
		return errAbsent
	}
	return nil
}
