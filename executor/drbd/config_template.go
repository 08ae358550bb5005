package drbd

import (
	"fmt"
	"strings"
	"time"
)

// writeNet writes the network options that both versions have in common. All policies after a
// split brain are "disconnect": none discards acknowledged writes automatically (S127). Without a ko-count
// the kernel lets seven WriteTimeouts pass, and a peer whose disk hangs was measured to hold the primary's writer for
// 14 s (S66).
func (f resource) writeNet(b *strings.Builder, indent string) {
	o := f.options
	for _, line := range []string{
		"protocol " + f.protocol,
		"cram-hmac-alg " + o.Auth,
		`shared-secret "` + f.Secret + `"`,
		"verify-alg " + o.Verify,
		"allow-two-primaries no",
		"after-sb-0pri disconnect",
		"after-sb-1pri disconnect",
		"after-sb-2pri disconnect",
		"rr-conflict disconnect",
		fmt.Sprintf("ping-int %d", o.PingInterval/time.Second),
		fmt.Sprintf("ping-timeout %d", o.PingTimeout/(100*time.Millisecond)),
		fmt.Sprintf("timeout %d", o.WriteTimeout/(100*time.Millisecond)),
		fmt.Sprintf("ko-count %d", o.KoCount),
		fmt.Sprintf("connect-int %d", o.ConnectRetry/time.Second),
	} {
		fmt.Fprintf(b, "%s%s;\n", indent, line)
	}
}

// writeDisk sets a fixed rate of resynchronisation: the controlled rate (c-plan-ahead) was
// measured to start at 1 MiB/s and to take 25 s for 64 MiB on an idle link.
func (f resource) writeDisk(b *strings.Builder) {
	for _, line := range []string{
		"on-io-error detach",
		"disk-flushes yes",
		"md-flushes yes",
		"c-plan-ahead 0",
		fmt.Sprintf("resync-rate %dk", f.options.ResyncRate),
		fmt.Sprintf("c-min-rate %dk", f.options.ResyncFloor),
	} {
		fmt.Fprintf(b, "    %s;\n", line)
	}
}

// fencingPolicy is what a primary does that loses its peer: it suspends I/O until the log decided.
// With protocol A the kernel refuses that policy (error 154): the primary continues, and the
// handler still asks the log, also before a replica becomes primary without its peer. A takeover
// of such a volume loses writes in any case and is an operator's decision (S11).
func (f resource) fencingPolicy() string {
	if f.protocol == "A" {
		return "resource-only"
	}
	return "resource-and-stonith"
}

const fileHeader = "# Written by holdfast from the log. Changes are lost.\n"

// render84 renders the file for DRBD 8.4: two hosts, fencing through the fence-peer handler.
func (f resource) render84() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%sresource %s {\n  net {\n", fileHeader, f.Volume)
	f.writeNet(&b, "    ")
	b.WriteString("  }\n  disk {\n    fencing " + f.fencingPolicy() + ";\n")
	f.writeDisk(&b)
	fmt.Fprintf(&b, "  }\n  options {\n    on-no-data-accessible io-error;\n  }\n  handlers {\n    fence-peer \"%s\";\n  }\n", f.handler)
	f.writeVolume(&b, "  ")
	f.writeHost(&b, f.host, f.local, "")
	f.writeHost(&b, f.peer, f.remote, "")
	b.WriteString("}\n")
	return []byte(b.String())
}

// render9 renders the file for DRBD 9. DRBD's own quorum is off, since the log decides, and
// auto-promote is off: opening a device must not promote it (S2).
func (f resource) render9() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%sresource %s {\n  disk {\n", fileHeader, f.Volume)
	f.writeDisk(&b)
	fmt.Fprintf(&b, "  }\n  options {\n    auto-promote no;\n    quorum off;\n    on-no-data-accessible io-error;\n  }\n  handlers {\n    fence-peer \"%s\";\n  }\n", f.handler)
	f.writeVolume(&b, "  ")
	f.writeHost(&b, f.host, f.local, fmt.Sprintf("    node-id %d;\n", f.nodeID))
	f.writeHost(&b, f.peer, f.remote, fmt.Sprintf("    node-id %d;\n", f.peerNode))
	b.WriteString("  connection {\n")
	fmt.Fprintf(&b, "    host \"%s\";\n    host \"%s\";\n    net {\n      fencing %s;\n", f.host, f.peer, f.fencingPolicy())
	f.writeNet(&b, "      ")
	b.WriteString("    }\n  }\n}\n")
	return []byte(b.String())
}

func (f resource) writeVolume(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%[1]sdevice minor %[2]d;\n%[1]sdisk \"%[3]s\";\n%[1]smeta-disk internal;\n", indent, f.Minor, f.BackingPath)
}

// writeHost writes one host's section. Names have a meaning on this host only: 8.4 does not
// exchange them, and 9 identifies hosts by node-id.
func (f resource) writeHost(b *strings.Builder, name, address, extra string) {
	fmt.Fprintf(b, "  on \"%s\" {\n%s    address %s;\n  }\n", name, extra, address)
}
