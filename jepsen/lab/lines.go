package lab

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// lines are the connections to the agent of one run of a guest. They end with the run:
// a guest without power closes none.
type lines struct {
	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
	http  *http.Client
}

func newLines() *lines {
	l := &lines{open: map[net.Conn]bool{}}
	l.http = &http.Client{Transport: &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 4}}
	return l
}

func (l *lines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = conn.Close() // nothing was sent
		return nil, ErrDown
	}
	l.open[conn] = true
	return &line{Conn: conn, of: l}, nil
}

func (l *lines) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for conn := range l.open {
		_ = conn.Close() // the other end is gone
	}
	clear(l.open)
}

// line is a connection that is forgotten when it is closed.
type line struct {
	net.Conn
	of *lines
}

func (l *line) Close() error {
	l.of.mu.Lock()
	delete(l.of.open, l.Conn)
	l.of.mu.Unlock()
	return l.Conn.Close()
}
