package session

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
)

// answerHostFacts sends what the host shows of itself, or why it could not look.
func (h *hostSession) answerHostFacts(ctx context.Context, q *sessionpb.HostFactsQuestion) {
	ctx, cancel := context.WithTimeout(ctx, hostFactsTimeout)
	defer cancel()
	select {
	case h.outgoing <- &sessionpb.FromNode{Body: &sessionpb.FromNode_HostFacts{HostFacts: factsAnswer(ctx, q.GetQuestion(), h.gatherFor(q.GetReach()))}}:
	case <-ctx.Done():
	}
}

// gatherFor is HostFacts for one question; nil: the host does not answer about itself.
func (h *hostSession) gatherFor(reach *sessionpb.Reachability) func(context.Context) ([]byte, error) {
	if h.HostFacts == nil {
		return nil
	}
	return func(ctx context.Context) ([]byte, error) { return h.HostFacts(ctx, reachabilityFrom(reach)) }
}

func factsAnswer(ctx context.Context, question uint64, gather func(context.Context) ([]byte, error)) *sessionpb.HostFactsAnswer {
	answer := &sessionpb.HostFactsAnswer{Question: question}
	if gather == nil {
		answer.Error = "it does not look at itself"
		return answer
	}
	facts, err := gather(ctx)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.Facts = facts
	return answer
}
