package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// listenFor is how long a host listens for the others, which are asked at the same time and may begin later: longer than
	// a question waits for its turn there, and is tried.
	listenFor = 30 * time.Second
	// pairTimeout bounds how long a host is tried, from the first attempt on: it may begin to listen later than this one.
	pairTimeout = 3 * time.Second
	// pairsAtOnce bounds the connections that are tried side by side.
	pairsAtOnce = 64
	// maxListening bounds the ports on which a host listens at the same time.
	maxListening = 8
)

// Listened is whether a host could listen on the port that the others tried.
type Listened struct {
	Address string `json:"address"`
	Err     string `json:"err,omitempty"`
	NotOurs bool   `json:"not_ours,omitempty"` // no interface of the host has the address
}

// PairProbe tries whether hosts reach each other where they are to replicate. DRBD listens only for volumes that it has, and a
// stray connection disturbs it, so that each host listens by itself, on a port that no volume uses, for seconds.
type PairProbe struct {
	Pause time.Duration // between two attempts to reach a host that does not listen yet

	mu        sync.Mutex
	listening map[string]*probeListener // by address
}

// probeListener lasts until its timer fires.
type probeListener struct {
	net.Listener
	timer *time.Timer
}

// Listen begins to listen, or goes on for as long again, whatever other ports are listened on for others who ask. Nil: these
// are too many.
func (p *PairProbe) Listen(ctx context.Context, own string, port uint32) *Listened {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &Listened{Address: net.JoinHostPort(own, strconv.FormatUint(uint64(port), 10))}
	if now := p.listening[l.Address]; now != nil {
		now.timer.Stop()
		p.keep(l.Address, now.Listener)
		return l
	}
	if len(p.listening) == maxListening {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if err != nil {
		l.Err, l.NotOurs = reasonOf(err), errors.Is(err, syscall.EADDRNOTAVAIL)
		return l
	}
	go turnAway(listener)
	p.keep(l.Address, listener)
	return l
}

// turnAway ends each connection, since the kernel refuses more once its queue of them is full. It ends with the listener.
func turnAway(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for instance, the process has too many files open
			time.Sleep(100 * time.Millisecond)
			continue
		}
		_ = conn.Close() // who connected has learned what it asked
	}
}

// keep has the listener end by itself later.
func (p *PairProbe) keep(address string, listener net.Listener) {
	kept := &probeListener{Listener: listener}
	kept.timer = time.AfterFunc(listenFor, func() { p.expire(address, kept) })
	if p.listening == nil {
		p.listening = map[string]*probeListener{}
	}
	p.listening[address] = kept
}

// expire ends the listening, unless it was renewed while its timer fired.
func (p *PairProbe) expire(address string, expired *probeListener) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listening[address] == expired {
		p.close(address)
	}
}

// Close ends the listening. It may be called again.
func (p *PairProbe) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address := range p.listening {
		p.close(address)
	}
}

func (p *PairProbe) close(address string) {
	l := p.listening[address]
	l.timer.Stop()
	_ = l.Close() // it can only be closed already
	delete(p.listening, address)
}

// Reach tries each host, side by side.
func (p *PairProbe) Reach(ctx context.Context, dial func(context.Context, string) error, hosts []string, port uint32) []Reach {
	ctx, cancel := context.WithTimeout(ctx, pairTimeout)
	defer cancel()
	all := make([]Reach, len(hosts))
	turn := make(chan struct{}, pairsAtOnce)
	var wg sync.WaitGroup
	for i, host := range hosts {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			address := net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
			all[i] = p.reachOne(ctx, dial, address)
		})
	}
	wg.Wait()
	return all
}

// reachOne tries again while it is refused: the other host may not listen yet.
func (p *PairProbe) reachOne(ctx context.Context, dial func(context.Context, string) error, address string) Reach {
	began := time.Now()
	for {
		err := dial(ctx, address)
		if err == nil {
			return Reach{Address: address, Took: time.Since(began)}
		}
		r := Reach{Address: address, Err: reasonOf(err), Refused: errors.Is(err, syscall.ECONNREFUSED)}
		if !r.Refused {
			return r
		}
		select {
		case <-time.After(p.Pause):
		case <-ctx.Done():
			return r
		}
	}
}

// reasonOf is an error of a connection without its address, which the finding names already.
func reasonOf(err error) string {
	var number syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	}
	return fmt.Sprint(err)
}
