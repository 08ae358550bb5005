package node

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/session"
)

func dialing(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Two hosts are asked at the same time, and each reaches the other and the controller; one that holds no replicas reaches no host.
func TestHostsSayWhomTheyReach(t *testing.T) {
	api, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, api.Close()) }()
	port := uint32(api.Addr().(*net.TCPAddr).Port)
	hosts := map[string]*reachability{}
	for _, own := range []string{"127.0.0.5", "127.0.0.6", ""} {
		hosts[own] = newReachability(own, dialing, time.Millisecond)
		t.Cleanup(hosts[own].pairs.Close)
	}
	others := map[string][]string{"127.0.0.5": {"127.0.0.6"}, "127.0.0.6": {"127.0.0.5"}}
	for range 2 {
		answers := map[string]<-chan func(*hostcheck.Facts){}
		for own, r := range hosts {
			answers[own] = r.begin(t.Context(), session.Reachability{Controllers: []string{api.Addr().String()}, Hosts: others[own], Port: port})
		}
		for own, answer := range answers {
			var f hostcheck.Facts
			(<-answer)(&f)
			require.Len(t, f.Controllers, 1)
			require.Empty(t, f.Controllers[0].Err)
			require.Len(t, f.Hosts, len(others[own]))
			for _, h := range f.Hosts {
				require.Empty(t, h.Err)
			}
			require.Equal(t, own == "", f.Listened == nil)
		}
	}
}

// However many questions come at the same time, one is answered at a time, and the same one once in a while only.
func TestQuestionsAreAnsweredOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int64
		r := newReachability("", func(context.Context, string) error {
			defer now.Add(-1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			all.Add(1)
			time.Sleep(time.Second)
			return nil
		}, time.Millisecond)
		ask := func(addresses ...string) <-chan func(*hostcheck.Facts) {
			return r.begin(t.Context(), session.Reachability{Controllers: addresses})
		}
		var answers []<-chan func(*hostcheck.Facts)
		for i := range 10 {
			answers = append(answers, ask(fmt.Sprint("c", i)))
		}
		for _, answer := range answers {
			var f hostcheck.Facts
			(<-answer)(&f)
			require.Len(t, f.Controllers, 1)
		}
		require.EqualValues(t, 1, most.Load())

		before := all.Load()
		for range 3 {
			<-ask("c")
		}
		require.EqualValues(t, 1, all.Load()-before, "the same question")
		time.Sleep(keepReached)
		<-ask("c")
		require.EqualValues(t, 2, all.Load()-before)
	})
}

// A host that refused may listen by the next question.
func TestARefusalIsNoAnswerToTheNextQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listens := false
		r := newReachability("10.0.0.1", func(context.Context, string) error {
			if listens {
				return nil
			}
			return syscall.ECONNREFUSED
		}, time.Second)
		whom := session.Reachability{Hosts: []string{"10.0.0.2"}, Port: 9}
		for range 2 {
			_, hosts := r.reach(t.Context(), whom)
			require.True(t, hosts[0].Refused)
		}
		listens = true
		for range 2 {
			_, hosts := r.reach(t.Context(), whom)
			require.Empty(t, hosts[0].Err)
		}
	})
}

// A question whose time is over in the middle of its turn, or before it, leaves no answer, and the turn to the next one.
func TestAQuestionThatIsCancelledLeavesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReachability("", func(ctx context.Context, _ string) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, time.Millisecond)
		whom := session.Reachability{Controllers: []string{"c1", "c2"}}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			first := r.begin(ctx, whom)
			synctest.Wait()
			waits := r.begin(ctx, session.Reachability{Controllers: []string{"c3"}})
			same := r.begin(t.Context(), whom)
			synctest.Wait()
			cancel()
			var f hostcheck.Facts
			(<-first)(&f)
			require.NotEmpty(t, f.Controllers[0].Err)
			(<-waits)(&f)
			(<-same)(&f)
			require.Len(t, f.Controllers, 2)
			for _, c := range f.Controllers {
				require.Empty(t, c.Err)
			}
			time.Sleep(keepReached)
		}
	})
}

// Two who ask with different ports at the same time are both answered that the hosts reach each other.
func TestAHostIsReachedOnEachPortThatIsAskedFor(t *testing.T) {
	ports := []uint32{freePort(t), freePort(t)}
	a, b := newReachability("127.0.0.5", dialing, time.Millisecond), newReachability("127.0.0.6", dialing, time.Millisecond)
	t.Cleanup(a.pairs.Close)
	t.Cleanup(b.pairs.Close)
	for range 2 {
		var answers []<-chan func(*hostcheck.Facts)
		for _, port := range ports {
			b.begin(t.Context(), session.Reachability{Port: port})
		}
		for _, port := range ports {
			answers = append(answers, a.begin(t.Context(), session.Reachability{Hosts: []string{"127.0.0.6"}, Port: port}))
		}
		for i, answer := range answers {
			var f hostcheck.Facts
			(<-answer)(&f)
			require.Empty(t, f.Listened.Err)
			require.Contains(t, f.Listened.Address, fmt.Sprint(ports[i]))
			require.Len(t, f.Hosts, 1)
			require.Empty(t, f.Hosts[0].Err)
			require.Contains(t, f.Hosts[0].Address, fmt.Sprint(ports[i]))
		}
	}
}

func freePort(t *testing.T) uint32 {
	l, err := net.Listen("tcp", "127.0.0.5:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return uint32(l.Addr().(*net.TCPAddr).Port)
}
