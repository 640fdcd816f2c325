"""The reach of a tweet: how many people have seen a link, because somebody they follow tweeted it.

A tweet meets the followers that its author has at that moment (stream-table join), goes to its link
(regroup), and adds to the people who have seen that (fold).
"""

from __future__ import annotations

from millstream.flow import Flow
from millstream.testing import In, run

FOLLOWERS = [("ann", ["bob", "carla"]), ("bob", ["carla", "dmitri"]), ("ann", ["bob", "carla", "eve"])]
TWEETS = [
    In("cats.example", key="ann", timestamp=1),  # before ann's followers change, at 2
    In("cats.example", key="bob", timestamp=3),
    In("mills.example", key="ann", timestamp=4),
    In("mills.example", key="eve", timestamp=5),  # nobody is known to follow eve
]


def link_of(tweet: tuple[str, list[str]]) -> str:
    """What was tweeted."""
    return tweet[0]


def seen_by(people: frozenset[str], tweet: tuple[str, list[str]]) -> frozenset[str]:
    """Those who had seen the link before, and those who see it now."""
    return people.union(tweet[1])


def flow() -> Flow:
    """Tweets and followers, both by author, to the number of people who have seen each link."""
    flow = Flow("tweet_reach")
    tweets = flow.source("tweets", key=str, value=str).group_by_key()
    followers = flow.source("followers", key=str, value=list[str]).group_by_key().latest()
    everybody = tweets.join(followers).group_by(link_of).fold(frozenset[str](), seen_by)
    everybody.map(len, value=int).sink("reach")
    return flow


if __name__ == "__main__":
    print(f"{flow().describe()}\n")
    for link, reach in run(flow(), {"followers": FOLLOWERS, "tweets": TWEETS}).table("reach").items():
        print(f"{link:<15}{reach}")
