package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/raftnode/journal"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

func (m *Member) openFiles() (err error) {
	m.metrics = newMetrics()
	m.proposer.metrics = m.metrics
	var dump verifiedDump
	if m.storage, err = m.openStorage(store.Options{
		Dir: m.cfg.Dir, Kind: m.cfg.LogStore, Hang: m.cfg.DiskHang, SegmentSize: m.cfg.SegmentSize,
		Verify: dump.decode, CheckHeader: checkDumpHeader, CheckEntry: checkEntryLevel, Logger: m.cfg.Logger, Disk: m.cfg.Simulated.Disk, OnSync: m.observeSync,
		OnFatal: func(operation string, err error) {
			m.fatal(ExitRestart, fmt.Sprintf("the store failed: %s: %v", operation, err))
		},
		OnHang: m.onDiskHang,
	}); err != nil {
		return err
	}
	m.id = m.storage.memberID
	m.journal, err = journal.Open(journal.Options{Dir: m.cfg.journalDir(), RetainBytes: m.cfg.JournalRetain, Logger: m.cfg.Logger})
	if err != nil {
		return errors.Join(err, m.storage.close())
	}
	m.diskGuard = newDiskGuard(&m.cfg, m.log, func() { m.tracker.resign("the disk is full") })
	m.proposer.diskGuard, m.checkpoints.diskGuard = m.diskGuard, m.diskGuard
	recorded, err := m.storage.revocations()
	if err != nil {
		return errors.Join(err, m.journal.Close(), m.storage.close())
	}
	m.revocations = newRevocations(m.core, recorded)
	m.machine = newMachine(m.journal, m.events())
	m.machine.verifiedDump, m.machine.apply = dump, m.cfg.apply
	m.machine.skips, err = loadSkips(m.storage)
	if err != nil {
		return errors.Join(err, m.journal.Close(), m.storage.close())
	}
	return nil
}

// openStorage opens the store. After a stop that was not in order the store copies its files, so a
// start on a full disk may need the room of the disk reserve (S28).
func (m *Member) openStorage(o store.Options) (*storage, error) {
	s, err := m.cfg.openStorage(o)
	reserve := filepath.Join(m.cfg.Dir, reserveName)
	if !errors.Is(err, unix.ENOSPC) {
		return s, err
	}
	if removeErr := os.Remove(reserve); removeErr != nil {
		return nil, errors.Join(err, removeErr)
	}
	m.log.Warn("the disk is full: deleted the disk reserve to start", "file", reserve)
	return m.cfg.openStorage(o)
}

// events connects the machine to the rest of the member.
func (m *Member) events() machineEvents {
	return machineEvents{
		changed:       m.watches.publish,
		allChanged:    m.watches.publishAll,
		committed:     m.onCommitted,
		clusterNamed:  m.clusterNamed,
		configuration: m.joiner.setAdmitted,
		diverged: func(index uint64, ownHash, majorityHash []byte) {
			go m.checkpoints.quarantine(index, ownHash, majorityHash)
		},
		revoked:      m.revocations.update,
		failed:       func(reason string) { m.fatal(ExitRestart, reason) },
		entryFailed:  m.recordEntryFault,
		batchApplied: m.metrics.observeApplied,
		dumpDone:     m.metrics.countSnapshot,
	}
}

// clusterNamed records the cluster's id in the data directory, and in the marker where this member founded it.
func (m *Member) clusterNamed(cluster string) error {
	if err := m.recordClusterID(cluster); err != nil {
		return err
	}
	m.joiner.bootstrapper.nameCluster(cluster)
	return nil
}

// onCommitted is called after each batch of entries.
func (m *Member) onCommitted(index, term uint64) {
	m.transport.commitPipelines.notify(index, term)
	m.checkpoints.onCommitted(index)
	m.leader.signalSweep()
}
