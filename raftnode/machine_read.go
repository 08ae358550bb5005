package raftnode

import "github.com/holdfast-storage/holdfast/fsm"

// view calls fn under the read lock.
func (m *machine) view(fn func(*fsm.State) error) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Cluster().Index, fn(m.state)
}

func (m *machine) fork() *fsm.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork()
}

// forkAt is fork, with the term of the last command in it.
func (m *machine) forkAt() (*fsm.State, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork(), m.stateTerm
}

func (m *machine) cluster() fsm.Cluster {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Cluster()
}

func (m *machine) hashAt(index uint64) ([32]byte, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.hashes.at(index)
}
