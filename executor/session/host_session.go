package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// errSilent: the watchdog expired without a message.
var errSilent = errors.New("the controller is silent")

// errLevelRose: the host was registered for a lower feature level than the cluster has now.
var errLevelRose = errors.New("the cluster's feature level rose")

// hostSession is one session at the host's end.
type hostSession struct {
	*Client
	registeredLevel uint32 // feature level of the registration
	stream          grpc.BidiStreamingClient[sessionpb.FromNode, sessionpb.ToNode]
	outgoing        chan *sessionpb.FromNode
	watchdog        *time.Timer
}

// runSession runs one session with a controller until it ends. delivered tells whether it delivered an update.
func (c *Client) runSession(ctx context.Context, endpoint int) (delivered bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := waitConnected(ctx, c.conns[endpoint], c.timing.connectTimeout); err != nil {
		return false, err
	}
	stream, err := sessionpb.NewSessionClient(c.conns[endpoint]).Attach(ctx)
	if err != nil {
		return false, err
	}
	a := &hostSession{Client: c, stream: stream, outgoing: make(chan *sessionpb.FromNode)}
	a.watchdog = time.AfterFunc(c.timing.peerTimeout, func() { cancel(errSilent) })
	defer a.watchdog.Stop()
	delivered, err = a.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = errSilent
	}
	return delivered, err
}

// waitConnected waits for the connection, for the timeout at most, and resets gRPC's backoff
// so that earlier failures do not delay the next attempt.
func waitConnected(ctx context.Context, conn *grpc.ClientConn, timeout time.Duration) error {
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
func (a *hostSession) run(ctx context.Context) (delivered bool, err error) {
	acted, actedID := a.ActedEpoch()
	header, err := a.stream.Header()
	if err != nil {
		return false, err
	}
	a.registeredLevel = a.noteHeaderLevel(header)
	if err := a.sendHello(acted); err != nil {
		return false, err
	}
	go a.sendLoop(ctx)
	asm := updateAssembler{actedEpoch: acted, actedIncarnationID: actedID}
	for {
		a.watchdog.Reset(a.recvTimeout(asm.welcome == nil))
		m, err := a.stream.Recv()
		if err != nil {
			return asm.delivered, err
		}
		a.watchdog.Stop()
		if err := a.handleMessage(ctx, &asm, m); err != nil {
			return asm.delivered, err
		}
	}
}

// recvTimeout is longer before the Welcome message: the controller may have to catch up, and registers the host.
func (a *hostSession) recvTimeout(beforeWelcome bool) time.Duration {
	if beforeWelcome {
		return a.timing.catchUpTimeout + a.timing.registerTimeout
	}
	return a.timing.peerTimeout
}

// sendHello sends the registration, without the fields above the cluster's feature level (S72).
func (a *hostSession) sendHello(acted fsm.Epoch) error {
	register := a.Register()
	fsm.Trim(register, a.registeredLevel)
	register.Incarnation = acted.Incarnation
	return a.stream.Send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Hello{Hello: &sessionpb.Hello{
		Register: register, Seen: acted.Proto(),
	}}})
}

// handleMessage handles one message of the controller.
func (a *hostSession) handleMessage(ctx context.Context, asm *updateAssembler, m *sessionpb.ToNode) error {
	if q := m.GetInventory(); q != nil {
		go a.answerInventory(ctx, q.GetQuestion())
		return nil
	}
	if q := m.GetMap(); q != nil {
		go a.answerMap(ctx, q)
		return nil
	}
	update, err := asm.add(m)
	if err != nil {
		return err
	}
	a.noteIndex(asm.lastEpoch)
	if update != nil {
		a.setLevel(update.FeatureLevel)
		a.handleUpdate(update)
		if update.FeatureLevel > a.registeredLevel {
			return errLevelRose // the host registers again, with all fields of this level
		}
	}
	return nil
}

// sendLoop is the only goroutine that sends after the hello. A failure shows in Recv.
func (a *hostSession) sendLoop(ctx context.Context) {
	if a.sendTelemetry(a.lastTelemetry.Load()) != nil {
		return
	}
	heartbeat := time.NewTicker(a.timing.heartbeat)
	defer heartbeat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-heartbeat.C:
			err = a.stream.Send(&sessionpb.FromNode{})
		case m := <-a.outgoing:
			err = a.stream.Send(m)
		case <-a.telemetryReady:
			err = a.sendTelemetry(a.lastTelemetry.Load())
		}
		if err != nil {
			return
		}
	}
}

func (a *hostSession) sendTelemetry(t *sessionpb.Telemetry) error {
	if t == nil {
		return nil
	}
	return a.stream.Send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Telemetry{Telemetry: t}})
}

// answerInventory sends the inventory in parts.
func (a *hostSession) answerInventory(ctx context.Context, query uint64) {
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	items, err := a.Inventory(ctx)
	parts := slices.Collect(slices.Chunk(items, maxPerMessage))
	if err != nil || len(parts) == 0 {
		parts = [][]executor.InventoryItem{nil}
	}
	for i, part := range parts {
		answer := &sessionpb.InventoryAnswer{Question: query, More: i < len(parts)-1}
		if err != nil {
			answer.Error = err.Error()
		}
		for _, item := range part {
			answer.Items = append(answer.Items, inventoryItemToProto(item))
		}
		select {
		case a.outgoing <- &sessionpb.FromNode{Body: &sessionpb.FromNode_Inventory{Inventory: answer}}:
		case <-ctx.Done():
			return
		}
	}
}
