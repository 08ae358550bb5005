package isolated

import "time"

// restartAfter is after how long a member that ended by itself is started again.
const restartAfter = time.Second

// Supervise has members that end by themselves be started again, as their units do, or not any more.
func (c *Cluster) Supervise(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.supervise = on
}

func (c *Cluster) supervises() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.supervise
}

// restart starts a member again whose process ended, unless that is what was asked for.
func (m *Member) restart() {
	time.Sleep(restartAfter)
	argv, supervised := m.argv(), m.cluster.supervises()
	m.mu.Lock()
	if m.wanted && supervised {
		_ = m.spawn(argv) // what it lacks is in its log
	}
	m.mu.Unlock()
	_ = m.cluster.writeLayout() // the next change writes it again
}
