package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
)

// handlerTimeout is how long the kernel's fence-peer handler asks.
const handlerTimeout = 20 * time.Second

// handlerEvents are what may happen to a fence-peer handler that a kernel has called.
func (s *Sim) handlerEvents(call *backendtest.HandlerCall) []*event {
	if call.Started() {
		return nil
	}
	key := fmt.Sprintf("handler %s %s", call.Host, shortID(string(call.Volume)))
	h := s.hostNamed(string(call.Host))
	if h.process == nil {
		return []*event{{key: key + " dies: there is no process", kind: kindKernel, do: call.Die}}
	}
	if s.handlersDie {
		return []*event{{key: key + " dies", kind: kindKernel, do: call.Die}}
	}
	return []*event{{key: key + " asks", kind: kindKernel, do: func() { s.runHandler(h.process, call, key) }}}
}

// runHandler is the handler's program, which asks the process.
func (s *Sim) runHandler(p *process, call *backendtest.HandlerCall, key string) {
	call.Start()
	go func() {
		ctx, cancel := context.WithTimeout(p.life, handlerTimeout)
		defer cancel()
		answered := false
		end := func(what string, do func()) {
			answered = true
			s.pending.add(&event{key: key + " " + what, kind: kindKernel, do: do})
		}
		defer func() {
			if !answered { // its process is gone
				s.pending.add(&event{key: key + " dies", kind: kindKernel, do: call.Die})
			}
		}()
		verdict, err := p.agent.FencePeer(ctx, call.Volume)
		if err != nil {
			end("dies", call.Die)
			return
		}
		end("answers "+verdict.String(), func() { call.Answer(verdict) })
	}()
}
