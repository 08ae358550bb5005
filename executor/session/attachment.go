package session

import (
	"cmp"
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

// errSilent: nothing came for too long.
var errSilent = errors.New("the controller is silent")

// errLevelRose: the host was registered for a lower level than the cluster runs at now.
var errLevelRose = errors.New("the cluster's feature level rose")

// attachment is one session at the host's end.
type attachment struct {
	*Client
	level    uint32 // that the host was registered for
	stream   grpc.BidiStreamingClient[sessionpb.FromNode, sessionpb.ToNode]
	out      chan *sessionpb.FromNode
	watchdog *time.Timer
}

// attach has one session with a controller, until it ends. began tells whether it came up.
func (c *Client) attach(ctx context.Context, endpoint int) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := connect(ctx, c.conns[endpoint], c.pace.connect); err != nil {
		return false, err
	}
	stream, err := sessionpb.NewSessionClient(c.conns[endpoint]).Attach(ctx)
	if err != nil {
		return false, err
	}
	a := &attachment{Client: c, stream: stream, out: make(chan *sessionpb.FromNode)}
	a.watchdog = time.AfterFunc(c.pace.silence, func() { cancel(errSilent) })
	defer a.watchdog.Stop()
	began, err = a.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = errSilent
	}
	return began, err
}

// connect waits a little for the connection, and asks gRPC not to wait longer
// with its next attempt because earlier ones failed.
func connect(ctx context.Context, conn *grpc.ClientConn, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn.ResetConnectBackoff()
	conn.Connect()
	for first := true; ; first = false {
		state := conn.GetState()
		if state == connectivity.Ready || state == connectivity.TransientFailure && !first {
			return nil // a call says best why it fails
		}
		if conn.WaitForStateChange(ctx, state) {
			continue
		}
		if state == connectivity.TransientFailure {
			return nil
		}
		return fmt.Errorf("no connection within %s", patience)
	}
}

// run speaks until the session ends. The watchdog runs only while this waits for
// the controller, not while the host handles what came.
func (a *attachment) run(ctx context.Context) (began bool, err error) {
	seen, seenID := a.Seen()
	header, err := a.stream.Header()
	if err != nil {
		return false, err
	}
	a.level = a.told(header)
	if err := a.hello(seen); err != nil {
		return false, err
	}
	go a.send(ctx)
	assembler := assembler{seen: seen, seenID: seenID}
	for {
		a.watchdog.Reset(a.patience(assembler.welcome == nil))
		m, err := a.stream.Recv()
		if err != nil {
			return assembler.began, err
		}
		a.watchdog.Stop()
		if err := a.take(ctx, &assembler, m); err != nil {
			return assembler.began, err
		}
	}
}

// patience is longer with a controller that is alive but must catch up or register the host.
func (a *attachment) patience(beforeWelcome bool) time.Duration {
	if beforeWelcome {
		return a.pace.seen + a.pace.register
	}
	return a.pace.silence
}

// hello says what the cluster's level knows of what the host says of itself (S72).
func (a *attachment) hello(seen fsm.Epoch) error {
	register := a.Register()
	fsm.Trim(register, a.level)
	register.Incarnation = seen.Incarnation
	return a.stream.Send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Hello{Hello: &sessionpb.Hello{
		Register: register, Seen: epochToProto(seen),
	}}})
}

// take handles one message of the controller.
func (a *attachment) take(ctx context.Context, assembler *assembler, m *sessionpb.ToNode) error {
	if q := m.GetInventory(); q != nil {
		go a.answer(ctx, q.GetQuestion())
		return nil
	}
	if q := m.GetMap(); q != nil {
		go a.answerMap(ctx, q)
		return nil
	}
	update, err := assembler.add(m)
	if err != nil {
		return err
	}
	a.heard(assembler.at)
	if update != nil {
		a.runsAt(update.FeatureLevel)
		a.handle(update)
		if update.FeatureLevel > a.level {
			return errLevelRose // the host registers anew, with all that this level knows
		}
	}
	return nil
}

// send is the only goroutine that sends after the hello. A failure shows in Recv.
func (a *attachment) send(ctx context.Context) {
	if a.tell(a.measured.Load()) != nil {
		return
	}
	beat := time.NewTicker(a.pace.beat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			err = a.stream.Send(&sessionpb.FromNode{})
		case m := <-a.out:
			err = a.stream.Send(m)
		case <-a.fresh:
			err = a.tell(a.measured.Load())
		}
		if err != nil {
			return
		}
	}
}

func (a *attachment) tell(t *sessionpb.Telemetry) error {
	if t == nil {
		return nil
	}
	return a.stream.Send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Telemetry{Telemetry: t}})
}

// answer says what the host holds, in parts.
func (a *attachment) answer(ctx context.Context, question uint64) {
	ctx, cancel := context.WithTimeout(ctx, inventoryWait)
	defer cancel()
	items, err := a.Inventory(ctx)
	parts := slices.Collect(slices.Chunk(items, batch))
	if err != nil || len(parts) == 0 {
		parts = [][]executor.InventoryItem{nil}
	}
	for i, part := range parts {
		answer := &sessionpb.InventoryAnswer{Question: question, More: i < len(parts)-1}
		if err != nil {
			answer.Error = err.Error()
		}
		for _, item := range part {
			answer.Items = append(answer.Items, &sessionpb.InventoryItem{Kind: item.Kind, Id: cmp.Or(string(item.Volume), string(item.Snapshot)), Path: item.Path})
		}
		select {
		case a.out <- &sessionpb.FromNode{Body: &sessionpb.FromNode_Inventory{Inventory: answer}}:
		case <-ctx.Done():
			return
		}
	}
}
