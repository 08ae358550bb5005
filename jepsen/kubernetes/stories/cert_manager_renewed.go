package stories

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asked is what `cmctl renew` sets, which has no other way to ask.
const asked = `[{"op": "add", "path": "/status/conditions/-", "value": {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "Certificate re-issuance manually triggered"}}]`

// shortly are values with which cert-manager renews each certificate three minutes after it issued it.
const shortly = "pki: {mode: certManager, certManager: {issuerName: holdfast, duration: 1h, renewBefore: 57m}}\n"

// renewals has certificates renewed for each of the reasons that there are, and wants no pod to be another one or to be started again.
func (m *managed) renewals(ctx context.Context) error {
	before, err := m.containers(ctx)
	if err != nil {
		return err
	}
	return all(
		func() error { return m.renewed(ctx, "as `cmctl renew` asks", 0, m.ask) },
		func() error { return m.renewed(ctx, "for a Secret that is gone", 1, m.deleteSecret) },
		func() error { return m.byItself(ctx) },
		func() error { return stampsGoOn(ctx, m.Teller) },
		func() error {
			return m.Time("claim and pod to Ready, with renewed certificates", func() error { return writerOn(ctx, m.Teller, "renewed", "") })
		},
		func() error {
			after, err := m.containers(ctx)
			if err == nil && !maps.Equal(before, after) {
				err = fmt.Errorf("the pods are %v, and were %v before the renewals", after, before)
			}
			return err
		},
	)
}

// renewed has one controller's certificate renewed, with a claim meanwhile.
func (m *managed) renewed(ctx context.Context, why string, n int, do func(context.Context, int) error) error {
	before, err := m.issuedTo(ctx, n)
	if err != nil {
		return err
	}
	return m.Time("renewed "+why+", to the controller with the new one", func() error {
		return errors.Join(do(ctx, n), madeMeanwhile(ctx, m.Teller, fmt.Sprintf("renewed-%d", n)), m.taken(ctx, n, before.SerialNumber))
	})
}

func (m *managed) ask(ctx context.Context, n int) error {
	_, err := m.In(namespace).Kubectl(ctx, "patch", "certificate", controllerName(n), "--subresource=status", "--type=json", "-p", asked)
	return err
}

// deleteSecret is the page's other way to ask.
func (m *managed) deleteSecret(ctx context.Context, n int) error {
	return m.types(ctx, "delete secret "+tlsSecret(n)+"\n")
}

// byItself has values with which certificates are renewed soon: cert-manager issues all again, for their duration is another one, and then
// each again, for which nobody asks.
func (m *managed) byItself(ctx context.Context) error {
	return all(
		func() error { return m.values(shortly) },
		func() error {
			return m.Time("issued for another duration, to all controllers with the new ones", func() error {
				return m.allTaken(ctx, func() error { return m.run(ctx, upgrade) })
			})
		},
		func() error {
			return m.Time("renewed by itself after three minutes, to all controllers with the new ones", func() error {
				return m.allTaken(ctx, func() error { return nil })
			})
		},
	)
}

// upgrade is the page's.
const upgrade = "helm upgrade holdfast deploy/chart -n holdfast -f values.yaml"

// allTaken waits until each controller serves with another certificate than before something was done.
func (m *managed) allTaken(ctx context.Context, do func() error) (err error) {
	var before [3]*x509.Certificate
	for n := range before {
		if before[n], err = m.issuedTo(ctx, n); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	for n, was := range before {
		if err := m.taken(ctx, n, was.SerialNumber); err != nil {
			return err
		}
	}
	return nil
}

// containers are all of the pods of Holdfast, with their pods' identities and how often they were started again.
func (m *managed) containers(ctx context.Context) (map[string]int32, error) {
	pods, err := m.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]int32{}
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			found[p.Name+"/"+c.Name+" "+string(p.UID)] = c.RestartCount
		}
	}
	return found, nil
}
