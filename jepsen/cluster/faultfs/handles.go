package faultfs

import "sync"

// handles are the files and directories that processes have open, each with what closes it below.
type handles struct {
	mu   sync.Mutex
	open map[any]func()
}

func (h *handles) add(handle any, close func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[any]func(){}
	}
	h.open[handle] = close
}

func (h *handles) remove(handle any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, handle)
}

func (h *handles) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// closeAll closes what nobody will: a connection that has ended brings no releases any more.
func (h *handles) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, close := range h.open {
		close()
	}
	clear(h.open)
}
