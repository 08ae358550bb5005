package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// errSilent: the watchdog expired without a message.
var errSilent = errors.New("the controller is silent")

// errLevelRose: the host was registered for a lower feature level than the cluster has now.
var errLevelRose = errors.New("the cluster's feature level rose")

// errRenewed: the session's connection was made again, and the session has to be.
var errRenewed = errors.New("the connection is renewed")

// renewPatience is how long a session whose connection was renewed waits for the answers that it owes.
const renewPatience = 10 * time.Second

// hostSession is one session at the host's end.
type hostSession struct {
	*Client
	registeredLevel uint32 // feature level of the registration
	stream          grpc.BidiStreamingClient[sessionpb.FromNode, sessionpb.ToNode]
	outgoing        chan *sessionpb.FromNode
	watchdog        *time.Timer
	answering       atomic.Int64 // the controller's queries that are not answered yet
}

// runSession runs one session with a controller until it ends. delivered tells whether it delivered an update.
func (c *Client) runSession(ctx context.Context, endpoint int) (delivered bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := waitConnected(ctx, c.conns[endpoint], c.timing.connectTimeout); err != nil {
		return false, err
	}
	renewed := renewedOf(c.conns[endpoint])
	stream, err := sessionpb.NewSessionClient(c.conns[endpoint]).Attach(ctx)
	if err != nil {
		return false, err
	}
	h := &hostSession{Client: c, stream: stream, outgoing: make(chan *sessionpb.FromNode)}
	h.watchdog = time.AfterFunc(c.timing.peerTimeout, func() { cancel(errSilent) })
	defer h.watchdog.Stop()
	go h.endWhenRenewed(ctx, renewed, cancel)
	delivered, err = h.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) || errors.Is(cause, errRenewed) {
		err = cause
	}
	return delivered, err
}

// renewedOf is nil for a connection that is never renewed.
func renewedOf(conn Conn) <-chan struct{} {
	if r, ok := conn.(renewable); ok {
		return r.Renewed()
	}
	return nil
}

// endWhenRenewed ends the session when its connection was made again. The other one is there already, and
// what was asked of the host is answered first, so that no call is lost.
func (h *hostSession) endWhenRenewed(ctx context.Context, renewed <-chan struct{}, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-renewed:
	}
	const quietFor = 100 * time.Millisecond // what was answered last is on its way
	for waited, quiet := time.Duration(0), false; waited < renewPatience && !quiet; waited += quietFor {
		quiet = h.answering.Load() == 0
		sleep(ctx, quietFor)
		quiet = quiet && h.answering.Load() == 0
	}
	end(errRenewed)
}

// answer answers a query beside the session.
func (h *hostSession) answer(fn func()) {
	h.answering.Add(1)
	go func() {
		defer h.answering.Add(-1)
		fn()
	}()
}

// waitConnected waits for the connection, for the timeout at most, and resets gRPC's backoff
// so that earlier failures do not delay the next attempt.
func waitConnected(ctx context.Context, conn Conn, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn.ResetConnectBackoff()
	conn.Connect()
	for first := true; ; first = false {
		state := conn.GetState()
		if state == connectivity.Ready || state == connectivity.TransientFailure && !first {
			return nil // the error of a call says best why it fails
		}
		if conn.WaitForStateChange(ctx, state) {
			continue
		}
		if state == connectivity.TransientFailure {
			return nil
		}
		return fmt.Errorf("no connection within %s", timeout)
	}
}

// run sends and receives until the session ends. The watchdog runs only while this waits for
// the controller, not while the host handles a message.
func (h *hostSession) run(ctx context.Context) (delivered bool, err error) {
	acted, actedID := h.ActedEpoch()
	header, err := h.stream.Header()
	if err != nil {
		return false, err
	}
	h.registeredLevel = h.noteHeaderLevel(header)
	defer h.registered.Store(nil)
	if err := h.sendHello(h.Register(), acted); err != nil {
		return false, err
	}
	go h.sendLoop(ctx)
	asm := updateAssembler{actedEpoch: acted, actedIncarnationID: actedID}
	for {
		h.watchdog.Reset(h.recvTimeout(asm.welcome == nil))
		m, err := h.stream.Recv()
		if err != nil {
			return asm.delivered, err
		}
		h.watchdog.Stop()
		if err := h.handleMessage(ctx, &asm, m); err != nil {
			return asm.delivered, err
		}
	}
}

// recvTimeout is longer before the Welcome message: the controller may have to catch up, and registers the host.
func (h *hostSession) recvTimeout(beforeWelcome bool) time.Duration {
	if beforeWelcome {
		return h.timing.catchUpTimeout + h.timing.registerTimeout
	}
	return h.timing.peerTimeout
}

// sendHello sends the registration, without the fields above the cluster's feature level (S72).
func (h *hostSession) sendHello(register *fsmpb.RegisterNode, acted fsm.Epoch) error {
	fsm.Trim(register, h.registeredLevel)
	register.Incarnation = acted.Incarnation
	h.registered.Store(register)
	return h.stream.Send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Hello{Hello: &sessionpb.Hello{
		Register: register, Seen: acted.Proto(), HostFacts: h.HostFacts != nil,
	}}})
}

// handleMessage handles one message of the controller.
func (h *hostSession) handleMessage(ctx context.Context, asm *updateAssembler, m *sessionpb.ToNode) error {
	if q := m.GetInventory(); q != nil {
		h.answer(func() { h.answerInventory(ctx, q) })
		return nil
	}
	if q := m.GetMap(); q != nil {
		h.answer(func() { h.answerMap(ctx, q) })
		return nil
	}
	if q := m.GetVolume(); q != nil {
		h.answer(func() { h.answerVolume(ctx, q) })
		return nil
	}
	if q := m.GetReplica(); q != nil {
		h.answer(func() { h.answerReplica(ctx, q) })
		return nil
	}
	if q := m.GetHostFacts(); q != nil {
		go h.answerHostFacts(ctx, q)
		return nil
	}
	update, err := asm.add(m)
	if err != nil {
		return err
	}
	if revoked := m.GetWelcome().GetRevoked(); revoked != nil {
		h.revocations.take(senderOf(h.stream.Context()), revoked)
	}
	h.noteIndex(asm.lastEpoch)
	if update != nil {
		h.setLevel(update.FeatureLevel)
		h.handleUpdate(update)
		if update.FeatureLevel > h.registeredLevel {
			return errLevelRose // the host registers again, with all fields of this level
		}
	}
	return nil
}

// sendLoop is the only goroutine that sends after the hello. A failure shows in Recv.
func (h *hostSession) sendLoop(ctx context.Context) {
	if h.sendTelemetry(h.lastTelemetry.Load()) != nil {
		return
	}
	heartbeat := time.NewTicker(h.timing.heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-heartbeat.C:
			err = h.stream.Send(&sessionpb.FromNode{})
		case m := <-h.outgoing:
			err = h.stream.Send(m)
		case <-h.telemetryReady:
			err = h.sendTelemetry(h.lastTelemetry.Load())
		case r := <-h.registrationReady:
			err = h.registerAgain(r)
		}
		if err != nil {
			return
		}
	}
}

func (h *hostSession) sendTelemetry(t *sessionpb.Telemetry) error {
	if t == nil {
		return nil
	}
	return h.stream.Send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Telemetry{Telemetry: t}})
}

// answerInventory sends the inventory in parts.
func (h *hostSession) answerInventory(ctx context.Context, q *sessionpb.InventoryQuestion) {
	listing, cancel := context.WithTimeout(ctx, queryTimeout(q.GetCandidates())-answerMargin)
	defer cancel()
	list := h.Inventory
	switch {
	case q.GetHeld():
		list = h.Held
	case q.GetCandidates() && h.Candidates != nil:
		list = h.Candidates
	}
	found, err := list(listing)
	if err == nil && q.GetHeld() {
		found.Items = append(found.Items, h.revocations.items()...)
	}
	parts := slices.Collect(slices.Chunk(found.Items, maxPerMessage))
	if err != nil || len(parts) == 0 {
		parts = [][]executor.InventoryItem{nil}
	}
	for i, part := range parts {
		answer := &sessionpb.InventoryAnswer{Question: q.GetQuestion(), More: i < len(parts)-1, Encryption: found.Encryption, Candidates: found.Candidates}
		if err != nil {
			answer.Error = err.Error()
		}
		for _, item := range part {
			answer.Items = append(answer.Items, inventoryItemToProto(item))
		}
		select {
		case h.outgoing <- &sessionpb.FromNode{Body: &sessionpb.FromNode_Inventory{Inventory: answer}}:
		case <-ctx.Done():
			return
		}
	}
}
