"""REINFORCE with a learned baseline, for an LSTM policy: Williams 1992.

The maze is that of Bakker 2002, "Reinforcement learning with long short-term memory":
a sign at the start of a corridor tells which way to turn at its end. A turn before the
end hits the wall.
"""

import argparse
import random

import dynet as dy

WALK, LEFT, RIGHT = ACTIONS = range(3)
SIGHTS = 4  # signs to the left and to the right, the corridor, its end


class Maze:
    """A corridor; at most `patience` steps are made in it."""

    def __init__(self, rng, patience=8):
        self.length = rng.randint(1, 3)
        self.side = rng.choice([LEFT, RIGHT])
        self.at, self.left = 0, patience

    def sight(self):
        if self.at == 0:
            return 0 if self.side == LEFT else 1
        return 3 if self.at == self.length else 2

    def step(self, action):
        """The reward, and whether this is the end."""
        self.left -= 1
        if action == WALK and self.at < self.length:
            self.at += 1
            return -0.05, not self.left
        if action != WALK and self.at == self.length:
            return (1.0 if action == self.side else -1.0), True
        return -0.3, not self.left


class Agent:
    def __init__(self, model, options):
        self.sights = model.add_lookup_parameters((SIGHTS, options.embedding))
        self.lstm = dy.VanillaLSTMBuilder(1, options.embedding, options.lstm, model)
        self.W_policy = model.add_parameters((len(ACTIONS), options.lstm))
        self.b_policy = model.add_parameters(len(ACTIONS), init=dy.ConstInitializer(0))
        self.W_value = model.add_parameters((1, options.lstm))
        self.b_value = model.add_parameters(1, init=dy.ConstInitializer(0))

    def episode(self, maze, rng):
        """-log p of each action that was taken, the expected returns, the rewards."""
        state = self.lstm.initial_state()
        costs, values, rewards, done = [], [], [], False
        while not done:
            state = state.add_input(self.sights[maze.sight()])
            h = state.output()
            probabilities = dy.softmax(
                dy.affine_transform([self.b_policy, self.W_policy, h])
            )
            weights = probabilities.npvalue().tolist()
            action = rng.choices(ACTIONS, weights=weights)[0]
            costs.append(-dy.log(dy.pick(probabilities, action)))
            # The baseline learns from what the policy sees, but does not change it.
            values.append(self.W_value * dy.nobackprop(h) + self.b_value)
            reward, done = maze.step(action)
            rewards.append(reward)
        return costs, values, rewards


def returns(rewards):
    """What is still to come at each step."""
    total, result = 0.0, []
    for reward in reversed(rewards):
        total += reward
        result.append(total)
    return result[::-1]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--episodes", type=int, default=6)
    arguments.add_argument("--embedding", type=int, default=16)
    arguments.add_argument("--lstm", type=int, default=24)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    trainer = dy.RMSPropTrainer(model, 0.01)
    trainer.set_clip_threshold(5.0)
    agent = Agent(model, options)
    rng = random.Random(1)
    earned = []
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        losses = []
        for _ in range(options.episodes):
            costs, values, rewards = agent.episode(Maze(rng), rng)
            earned.append(sum(rewards))
            coming = returns(rewards)
            for cost, value, actual in zip(costs, values, coming, strict=True):
                advantage = actual - value.value()
                losses.append(advantage * cost)
                losses.append(dy.squared_distance(value, dy.scalarInput(actual)))
        loss = dy.esum(losses) / options.episodes
        print(update, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()
    tenth = len(earned) // 10
    print(f"reward per episode, first tenth: {sum(earned[:tenth]) / tenth:.2f}")
    print(f"reward per episode, last tenth: {sum(earned[-tenth:]) / tenth:.2f}")


if __name__ == "__main__":
    main()
