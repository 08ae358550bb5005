package sim

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/addons/encryption"
	"github.com/holdfast-storage/holdfast/addons/reclaimspace"
	csinode "github.com/holdfast-storage/holdfast/csi/node"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// host is a storage host: a machine of the world, its records, and the process that runs on it.
type host struct {
	s       *Sim
	name    string
	number  int
	world   *backendtest.Host
	dir     string // the records; each process has a copy of its own
	starts  int
	process *process // nil: none runs
	fence   bool     // it asked to be restarted
}

// process is one node process.
type process struct {
	host   *host
	world  *backendtest.Process
	dir    string
	life   context.Context
	cancel context.CancelFunc
	gone   chan struct{}
	dead   atomic.Bool
	agent  *agent.Agent
	client *session.Client
	node   *csinode.Server
	space  *reclaimspace.NodeServer
	keys   *encryption.Server
}

func (s *Sim) addHost(number int) *host {
	h := &host{s: s, name: fmt.Sprintf("n%d", number), number: number, dir: filepath.Join(s.dir, fmt.Sprintf("n%d-0", number))}
	h.world = s.world.AddHost(fsm.NodeID(h.name), s.options.pools(number)...)
	s.hosts = append(s.hosts, h)
	return h
}

func (s *Sim) hostNamed(name string) *host {
	for _, h := range s.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// start starts the node process on a host that is up.
func (h *host) start() {
	time.Sleep(tick * time.Duration(h.number))
	p := &process{host: h, dir: h.nextDir(), gone: make(chan struct{})}
	p.life, p.cancel = context.WithCancel(h.s.life)
	p.world = h.world.StartProcess()
	h.process = p
	if err := p.open(); err != nil {
		h.s.fail("start: the process of %s does not start: %v", h.name, err)
		return
	}
	h.s.note("the process of %s starts", h.name)
	go func() {
		p.agent.Start()
		_ = p.client.Run(p.life)
	}()
}

// nextDir copies the records to a new folder: what is left of an earlier process can write to its own only.
func (h *host) nextDir() string {
	h.starts++
	next := filepath.Join(h.s.dir, fmt.Sprintf("%s-%d", h.name, h.starts))
	if _, err := os.Stat(h.dir); err == nil {
		if err := os.CopyFS(next, os.DirFS(h.dir)); err != nil {
			h.s.fail("records: they cannot be copied: %v", err)
		}
		_ = filepath.WalkDir(next, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return err
		})
		_ = os.RemoveAll(h.dir)
	}
	h.dir = next
	return next
}

// open makes the process of its parts.
func (p *process) open() error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	identity, err := records.OpenHost(p.dir)
	if err != nil {
		return err
	}
	identity.BootID = p.host.world.BootID()
	if err := p.openClient(); err != nil {
		return err
	}
	if p.agent, err = agent.New(p.config(identity)); err != nil {
		return err
	}
	p.space = reclaimspace.NewNode(p.agent)
	p.keys = encryption.New(p.agent, p.host.site().String())
	p.node, err = csinode.New(p.agent, csinode.Config{ID: fsm.NodeID(p.host.name), MountGroup: true})
	return err
}

func (p *process) openClient() (err error) {
	s := p.host.s
	p.client, err = session.NewClient(session.ClientConfig{
		Endpoints:  s.memberNames,
		Register:   func() *fsmpb.RegisterNode { return p.agent.Register() },
		ActedEpoch: func() (fsm.Epoch, []byte) { return p.agent.ActedEpoch() },
		Handle:     func(u executor.Update) { p.agent.Update(u) },
		Telemetry:  func() []executor.PoolFacts { return p.agent.PoolFacts(p.life) },
		Inventory:  func(ctx context.Context) (executor.Inventory, error) { return p.agent.Inventory(ctx) },
		Held:       func(ctx context.Context) (executor.Inventory, error) { return p.agent.Held(ctx) },
		Candidates: func(ctx context.Context) (executor.Inventory, error) { return p.agent.Candidates(ctx) },
		Map: func(ctx context.Context, base, target fsm.SnapshotID, from int64, limit int) (executor.MapPage, error) {
			return p.agent.Map(ctx, base, target, from, limit)
		},
		Logger: slog.New(slog.DiscardHandler),
		Dial: func(endpoint string) (session.Conn, error) {
			return &netConn{net: s.net, from: p.host.name, to: endpoint, role: "node", life: p.life}, nil
		},
		Jitter: func(d time.Duration) time.Duration { return d / 2 },
	})
	return err
}

func (p *process) config(identity *records.Host) agent.Config {
	s := p.host.s
	var encryptor executor.Encryptor
	if s.options.encrypted {
		encryptor = p.world.Encryptor()
	}
	return agent.Config{
		Encryptor: encryptor, Site: string(p.host.site()),
		Node: fsm.NodeID(p.host.name), Host: identity, Pools: p.world.Pools(), Mounter: p.world.Mounter(),
		Freezer: p.world.Freezer(), FilesystemTools: p.world.FilesystemTools(), Throttle: p.world.Throttle(),
		HealthInterval: s.options.healthInterval, Replicator: p.world.Replicator(), ReplicationAddress: fmt.Sprintf("10.0.0.%d", p.host.number),
		PublicKey: slices.Repeat([]byte{byte(p.host.number)}, 32), DeriveSecret: func([]byte, fsm.VolumeID) (string, error) { return "secret", nil },
		SelfFence: func() { p.host.fence = true }, Proposer: p.client, Faults: p, Workers: 4,
		ResyncInterval: neverRecheck, VerifyInterval: s.options.verifyInterval, FeatureLevel: fsm.MaxFeatureLevel, OvercommitPercent: 2000,
	}
}

// neverRecheck is longer than any run: no volume is looked at without an event.
const neverRecheck = 1000 * time.Hour

func (p *process) isGone() bool { return p.dead.Load() }

// crash ends the process at once, wherever it is.
func (p *process) crash() {
	if p.dead.Swap(true) {
		return
	}
	p.host.process = nil
	p.world.Kill()
	close(p.gone)
	p.cancel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if p.agent != nil {
		go func() { _ = p.agent.Shutdown(ended) }()
	}
	_ = p.client.Close()
}

// stop ends the process as an operator does: its work first.
func (p *process) stop() {
	go func() {
		ctx, cancel := context.WithTimeout(p.life, 10*time.Second)
		defer cancel()
		_ = p.agent.Shutdown(ctx)
		p.host.s.pending.add(&event{key: "process " + p.host.name + " ends", kind: kindMachine, do: p.crash})
	}()
}

// crash ends the host's process; powerLoss the machine.
func (h *host) crash() {
	if h.process != nil {
		h.s.note("the process of %s is killed", h.name)
		h.process.crash()
	}
}

func (h *host) powerLoss() {
	if !h.world.Up() {
		return
	}
	h.s.note("%s loses power", h.name)
	if p := h.process; p != nil {
		p.crash()
	}
	h.world.PowerLoss(h.s.tape.pick)
}

func (h *host) boot() {
	h.world.Boot()
	h.fence = false
	h.s.note("%s boots", h.name)
}
