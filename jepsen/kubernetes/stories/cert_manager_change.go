package stories

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/kit"
)

// inOwn is a block of the page for the story's own namespace.
func (m *managed) inOwn(block string) string {
	return strings.NewReplacer("-n "+namespace+" ", "-n "+m.Namespace+" ", "namespace: "+namespace, "namespace: "+m.Namespace).Replace(block)
}

// freshSecret runs what the page has for a new cluster in a namespace that has no Holdfast, and wants cert-manager to take the Secret.
func (m *managed) freshSecret(ctx context.Context) error {
	commands, err := m.blocks.with("holdfast ca make")
	if err != nil {
		return err
	}
	issuer, err := m.blocks.with("kind: Issuer")
	if err != nil {
		return err
	}
	return all(
		func() error { return m.run(ctx, m.inOwn(commands)) },
		func() error { return m.Apply(ctx, m.inOwn(issuer)) },
		func() error { return m.Wait(ctx, patience, "issuers.cert-manager.io", release, kit.Condition("Ready")) },
		func() error { return gone(ctx, m.Teller, "issuers.cert-manager.io", release) },
	)
}

// change has cert-manager issue the controllers' certificates.
func (m *managed) change(ctx context.Context) error {
	values, err := m.blocks.with("mode: certManager")
	if err != nil {
		return err
	}
	return all(
		func() error { return m.types(ctx, "--patch-file") },
		func() error { return m.types(ctx, "wait issuer/") },
		func() error { return m.values(values) },
		func() error {
			return m.Time("helm upgrade, to all controllers started with certificates of cert-manager", func() error { return m.types(ctx, "get certificates") })
		},
		func() error {
			for n, before := range m.before {
				if err := m.taken(ctx, n, before.SerialNumber); err != nil {
					return err
				}
			}
			return nil
		},
		func() error { return stampsGoOn(ctx, m.Teller) },
		func() error {
			return m.Time("claim and pod to Ready", func() error { return writerOn(ctx, m.Teller, "changed", "") })
		},
	)
}

// goBack has the controllers issue their own certificates again.
func (m *managed) goBack(ctx context.Context) error {
	return all(
		func() error { return m.values("") },
		func() error {
			return m.Time("helm upgrade back, to all controllers started with certificates of their own", func() error { return m.types(ctx, "delete issuer") })
		},
		func() error { return kit.Until(ctx, patience, func() error { return m.ownAgain(ctx) }) },
		func() error { return stampsGoOn(ctx, m.Teller) },
	)
}

// ownAgain wants each controller to serve with the certificate that it issued itself before cert-manager came, which it kept.
func (m *managed) ownAgain(ctx context.Context) error {
	for n, before := range m.before {
		now, err := m.served(ctx, n)
		if err != nil {
			return err
		}
		if !now.Equal(before) {
			return fmt.Errorf("%s serves with the certificate %x, and not with %x", controllerName(n), now.SerialNumber, before.SerialNumber)
		}
	}
	return nil
}
