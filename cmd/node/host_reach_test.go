package node

import (
	"context"
	"net"
	"testing"
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
		hosts[own] = &reachability{own: own, dial: dialing, pairs: hostcheck.PairProbe{Pause: time.Millisecond}}
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
