package raftnode

// waitMutex is a mutex that is held while another member is waited for. It is a channel because a
// bubble of testing/synctest goes on with time only when nobody waits for a sync.Mutex.
type waitMutex chan struct{}

func newWaitMutex() waitMutex { return make(waitMutex, 1) }

// Lock implements sync.Locker.
func (m waitMutex) Lock() { m <- struct{}{} }

// Unlock implements sync.Locker.
func (m waitMutex) Unlock() { <-m }

// TryLock locks when nobody has the lock.
func (m waitMutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}
