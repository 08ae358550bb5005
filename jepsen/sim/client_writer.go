package sim

import (
	"errors"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
)

// openWriter begins to write to what was bound.
func (u *use) openWriter() {
	if u.writer != nil {
		return
	}
	w, err := u.host.world.OpenWriter(u.usePath(), u.epoch)
	if err != nil {
		u.claim.s.note("%s on %s cannot be written: %v", u.claim.name, u.host.name, err)
		return
	}
	u.writer, u.unsynced = w, false
}

// writerEvents are the writes and syncs that may happen now.
func (c *clients) writerEvents() (events []*event) {
	for _, claim := range c.claims {
		for _, u := range claim.uses {
			if u.writer == nil || c.s.phase == phaseHealing && !u.unsynced {
				continue
			}
			key := "writer of " + claim.name + " on " + u.host.name
			if u.unsynced {
				events = append(events, &event{key: key + " syncs", kind: kindClient, do: u.sync})
			} else {
				events = append(events, &event{key: key + " writes", kind: kindClient, do: u.write})
			}
		}
	}
	return events
}

// write and sync do nothing when the writer ended since they were offered.
func (u *use) write() {
	if u.writer == nil {
		return
	}
	_, err := u.writer.Write()
	u.unsynced = err == nil
	u.writerEnded(err)
}

// sync makes what was written durable, unless the writer ended since this was offered.
func (u *use) sync() {
	if u.writer == nil {
		return
	}
	err := u.writer.Sync()
	if !errors.Is(err, backendtest.ErrWaits) {
		u.unsynced = false
	}
	if err == nil {
		u.claim.s.counts["acknowledged writes"]++
	}
	u.writerEnded(err)
}

// writerEnded: a writer whose device fails ends, as a pod does.
func (u *use) writerEnded(err error) {
	if err == nil || errors.Is(err, backendtest.ErrWaits) {
		return
	}
	u.claim.s.note("the writer of %s on %s ends: %v", u.claim.name, u.host.name, err)
	u.writer.Close()
	u.writer, u.unsynced = nil, false
}

// endWriters ends the writers of a volume that was deleted below them, as an orchestrator ends pods.
func (c *claim) endWriters() {
	for _, u := range c.uses {
		if u.writer != nil {
			u.writer.Close()
			u.writer, u.unsynced = nil, false
		}
	}
}
