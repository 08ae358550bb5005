package verbs

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// wire passes on what hosts and a controller's listener say to each other, and halts at one step of it: a connection, or a
// part of what either end says.
type wire struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	steps int // since arm
	halt  int // the step at which it halts, from 1; 0: none
	at    chan struct{}
}

func openWire(t *testing.T, address, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	w := &wire{listener: listener, to: to}
	t.Cleanup(func() { _ = listener.Close() })
	go w.serve()
	return w
}

// arm has the wire halt at a step from now on; the channel is closed there.
func (w *wire) arm(step int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps, w.halt, w.at = 0, step, make(chan struct{})
	return w.at
}

// passes counts a step; a connection that is halted passes nothing any more.
func (w *wire) passes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps++; w.steps == w.halt {
		close(w.at)
	}
	return w.halt == 0 || w.steps < w.halt
}

func (w *wire) serve() {
	for {
		host, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.connect(host)
	}
}

// connect passes a connection's bytes on until either end closes it. One that is halted stays open until its host is gone.
func (w *wire) connect(host net.Conn) {
	defer func() { _ = host.Close() }()
	if !w.passes() {
		_, _ = io.Copy(io.Discard, host)
		return
	}
	controller, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer func() { _ = controller.Close() }()
	go func() { w.copy(host, controller); _ = host.(*net.TCPConn).CloseWrite() }()
	w.copy(controller, host)
}

func (w *wire) copy(to io.Writer, from io.Reader) {
	part := make([]byte, 64<<10)
	for {
		n, err := from.Read(part)
		if n > 0 && w.passes() {
			_, _ = to.Write(part[:n])
		}
		if err != nil {
			return
		}
	}
}
